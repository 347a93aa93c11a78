package flashsale

import (
	"path/filepath"
	"testing"
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
