package flashsale

import (
	"path/filepath"
	"testing"
	"time"
)

// Promise: a worker that was stopped past its lease, and then continued, sells one too
// many if only a lock protects the sale, and is refused if the database checks the token.
func TestAStoppedWorkerOversellsUnlessItIsFenced(t *testing.T) {
	if !canStop {
		t.Skip("a process cannot be stopped here")
	}
	tempDir(t)
	results, err := Run(t.Context(), Config{Stock: 10, Buyers: 30, Workers: 3, Strike: Stop})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(results); err != nil {
		t.Error(err)
	}
	stoppedAsPromised(t, results)
}

func stoppedAsPromised(t *testing.T, results []Result) {
	if len(results) != 2 {
		t.Fatalf("%d results, want those of mutex and fenced", len(results))
	}
	if r := results[0]; r.Strategy != "mutex" || r.Oversold != 1 || r.Refused != 0 || r.Stopped < 1 {
		t.Errorf("got %+v, want one piece too many", r)
	}
	if r := results[1]; r.Strategy != "fenced" || !r.Exact() || r.Refused != 1 || r.Stopped < 1 {
		t.Errorf("got %+v, want one write refused, and exactly the stock sold", r)
	}
}

// Promise: a worker that breathes while a buyer of it is struck strikes no other one: who comes there meanwhile begins again.
func TestABreathStrikesNoSecondBuyer(t *testing.T) {
	came, goOn := make(chan bool, 2), make(chan bool)
	s := &shop{strike: 1, midway: func() error {
		came <- true
		<-goOn
		return nil
	}}
	struck := make(chan error, 1)
	strike := func() error {
		_, err := s.struck(t.Context(), 0, 1)
		return err
	}
	go func() { struck <- strike() }()
	<-came
	second := make(chan error, 1)
	go func() { second <- strike() }()
	select {
	case err := <-second:
		if !another(err) {
			t.Errorf("the second buyer got %v, want an error after which it begins again", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the second buyer waits with the first one")
	}
	close(goOn)
	if err := <-struck; err != nil {
		t.Errorf("the first buyer got %v", err)
	}
	if err := strike(); err != nil {
		t.Errorf("who comes later got %v", err)
	}
}

// Promise: when a worker is killed while it holds the lock, others go on, exactly, and
// the time until then is measured.
func TestTheSaleGoesOnWhenAWorkerIsKilled(t *testing.T) {
	tempDir(t)
	url := fileURL("sqlite", filepath.Join(t.TempDir(), "locks.db"))
	results, err := Run(t.Context(), Config{Stock: 10, Buyers: 30, Workers: 3, Strike: Kill, URLs: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	killedAsPromised(t, results)
}

func killedAsPromised(t *testing.T, results []Result) {
	if len(results) < 2 {
		t.Fatalf("%d results, want those of mutex and fenced", len(results))
	}
	for _, r := range results {
		if r.Strategy == "lua" {
			takenOverAsPromised(t, r)
			continue
		}
		if !r.Exact() || r.NextSale <= 0 || r.NextSale > r.Seconds {
			t.Errorf("got %+v, want exactly the stock sold, and the time until the next sale", r)
		}
	}
}
