// Package chaos has clients hold locks while somebody disturbs them and their backend.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
)

// Load is how many clients there are, how many goroutines each has, and how often they hold.
type Load struct {
	URL                  string
	TTL                  time.Duration
	Clients, Each, Times int
	Hold                 time.Duration // some hold for so long, at most; 0: a millisecond

	Until func() bool // ends it sooner
}

func (l *Load) over() bool { return l.Until != nil && l.Until() }

// patience is how long it may take until the next of them holds, whatever was disturbed.
const patience = 2 * time.Minute

// Open opens a client of servers that serve, or soon will: they may not agree yet if they have just begun, and a busy
// machine answers later than a short TTL allows.
func Open(t *testing.T, url string, ttl time.Duration) (c *interlock.Client) {
	t.Helper()
	var err error
	busy.Until(t, "a client opens", func() bool {
		c, err = interlock.Open(t.Context(), url, interlock.TTL(ttl))
		return !errors.Is(err, interlock.ErrUnavailable)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Run has them hold two locks, half of them in strict order, some with a wait that is cut
// short. Disturb is called again and again, each time after some have held. The test fails
// if two hold a lock at once, a token falls, or somebody is left waiting.
func Run(t *testing.T, load Load, disturb func()) {
	t.Helper()
	var held, lost, disturbed atomic.Int64
	var witnesses [2]Witness
	failed := make(chan error, load.Clients*load.Each)
	done, all := make(chan struct{}), make(chan struct{})
	var workers, mischief sync.WaitGroup
	for range load.Clients {
		c := Open(t, load.URL, load.TTL)
		t.Cleanup(func() { c.Close() })
		for i := range load.Each {
			w, name := &witnesses[i%2], fmt.Sprint("chaos/", i%2)
			lock := c.Mutex(name)
			if i/2%2 == 0 {
				lock = c.Mutex(name, interlock.StrictOrder())
			}
			workers.Go(func() {
				for n := 0; n < load.Times && !load.over(); {
					l, err := acquire(lock)
					if errors.Is(err, errHasty) {
						continue
					}
					if err == nil {
						_, err = w.Enter(l)
					}
					if err != nil {
						failed <- err
						return
					}
					n++
					held.Add(1)
					if rand.IntN(4) == 0 {
						time.Sleep(rand.N(cmp.Or(load.Hold, time.Millisecond)))
					}
					w.Leave(l)
					if err := l.Release(); errors.Is(err, interlock.ErrLost) {
						lost.Add(1)
					}
				}
			})
		}
	}
	go func() { workers.Wait(); close(all) }()
	mischief.Go(func() {
		for {
			for before := held.Load(); held.Load() < before+10; {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
			disturb()
			disturbed.Add(1)
		}
	})
	select {
	case <-all:
	case err := <-failed:
		t.Error(err)
	}
	close(done)
	mischief.Wait()
	for len(failed) > 0 { // the last to end may have failed
		t.Error(<-failed)
	}
	t.Logf("%d grants, %d of them lost, %d disturbances", held.Load(), lost.Load(), disturbed.Load())
	if t.Failed() {
		t.FailNow()
	}
}

var errHasty = errors.New("it did not wait for long")

func acquire(lock *interlock.Lock) (*interlock.Lease, error) {
	wait, hasty := busy.Bound(patience), rand.IntN(8) == 0
	if hasty {
		wait = rand.N(20 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	l, err := lock.Acquire(ctx)
	switch {
	case err == nil || ctx.Err() == nil:
		return l, err
	case hasty:
		return nil, errHasty
	}
	return nil, fmt.Errorf("somebody is left waiting: %w", err)
}
