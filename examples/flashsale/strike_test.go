package flashsale

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a worker that was stopped past its lease, and then continued, sells one too
// many if only a lock protects the sale, and is refused if the database checks the token.
func TestAStoppedWorkerOversellsUnlessItIsFenced(t *testing.T) {
	if !canStop {
		t.Skip("a process cannot be stopped here")
	}
	stoppedAsPromised(t, sold(t, Config{Stock: 10, Buyers: 30, Workers: 3, Strike: Stop}))
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

// Promise: a worker that breathes while a buyer of it is struck strikes no other one: who comes there meanwhile begins
// again.
func TestABreathStrikesNoSecondBuyer(t *testing.T) {
	s := &shop{job: job{Strike: 1}, midway: make(chan bool), goOn: make(chan bool)}
	struck := make(chan error, 1)
	go func() {
		_, err := s.struck(0, 1)
		struck <- err
	}()
	errtest.None(t, s.Midway(true, nil))
	if _, err := s.struck(0, 1); !another(err) {
		t.Errorf("the second buyer got %v, want an error after which it begins again", err)
	}
	errtest.None(t, s.GoOn(true, nil))
	errtest.Is(t, <-struck, nil, "the first buyer")
}

// Promise: a worker that is stopped, perhaps in a write that keeps out all others, runs for a moment after 16 s and 32
// s, and for good after 48 s, or when another has sold the piece.
func TestAStoppedWorkerBreathes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for sold, want := range map[time.Duration]string{time.Second: "stop 0s, go on 1s", time.Hour: "stop 0s, go on 16s, stop 16s, go on 32s, stop 32s, go on 48s"} {
			began, seen := time.Now(), []string(nil)
			see := func(what string) func() error {
				return func() error {
					seen = append(seen, fmt.Sprint(what, " ", time.Since(began).Round(time.Second)))
					return nil
				}
			}
			over := make(chan struct{})
			time.AfterFunc(sold, func() { close(over) })
			if err := breathe(t.Context(), over, see("stop"), see("go on")); err != nil || strings.Join(seen, ", ") != want {
				t.Errorf("got %q, %v; want %q", seen, err, want)
			}
		}
	})
}

// Promise: when a worker is killed while it holds the lock, others go on, exactly, and
// the time until then is measured.
func TestTheSaleGoesOnWhenAWorkerIsKilled(t *testing.T) {
	url := fileURL("sqlite", filepath.Join(t.TempDir(), "locks.db"))
	killedAsPromised(t, sold(t, Config{Stock: 10, Buyers: 30, Workers: 3, Strike: Kill, URLs: []string{url}}))
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
