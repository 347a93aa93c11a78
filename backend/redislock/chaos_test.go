package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/redistest"
)

// guarded is a lock and what it protects: at most one holder, by the account of the
// holders themselves, and tokens that grow.
type guarded struct {
	lock *interlock.Lock

	mu     *sync.Mutex
	holder **interlock.Lease
	last   *uint64
}

// enter notes a holder. The one before it must have ended by its own account.
func (g guarded) enter(l *interlock.Lease) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.Err() != nil {
		return nil // lost meanwhile, and it knows
	}
	if h := *g.holder; h != nil && h.Err() == nil {
		return fmt.Errorf("%q is held with the tokens %d and %d at once", g.lock.Name(), h.Token(), l.Token())
	}
	if l.Token() <= *g.last {
		return fmt.Errorf("%q has the token %d after %d", g.lock.Name(), l.Token(), *g.last)
	}
	*g.holder, *g.last = l, l.Token()
	return nil
}

func (g guarded) exit(l *interlock.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *g.holder == l {
		*g.holder = nil
	}
}

// crowd works under locks from many goroutines of several clients until each has
// held as often as it must, and disturbs them meanwhile.
func crowd(t *testing.T, open func() *interlock.Client, clients, each, cycles int, disturb func()) {
	t.Helper()
	names := []string{"chaos/a", "chaos/b"}
	type account struct {
		mu     sync.Mutex
		holder *interlock.Lease
		last   uint64
	}
	accounts := []*account{{}, {}}
	var held, lost atomic.Int64
	var workers, mischief sync.WaitGroup
	done := make(chan struct{})
	failed := make(chan error, clients*each+1)
	for range clients {
		c := open()
		for i := range each {
			var opts []interlock.Option
			if i%2 == 0 {
				opts = append(opts, interlock.StrictOrder())
			}
			a := accounts[i%len(names)]
			g := guarded{c.Mutex(names[i%len(names)], opts...), &a.mu, &a.holder, &a.last}
			workers.Go(func() {
				for n := 0; n < cycles; n++ {
					wait := context.Background()
					if rand.IntN(10) == 0 { // some give up
						var cancel context.CancelFunc
						wait, cancel = context.WithTimeout(wait, rand.N(20*time.Millisecond))
						defer cancel()
					}
					l, err := g.lock.Acquire(wait)
					if wait.Err() != nil && err != nil {
						n--
						continue
					}
					if err == nil {
						err = g.enter(l)
					}
					if err != nil {
						failed <- err
						return
					}
					held.Add(1)
					if rand.IntN(4) == 0 {
						time.Sleep(rand.N(time.Millisecond))
					}
					g.exit(l)
					if err := l.Release(); errors.Is(err, interlock.ErrLost) {
						lost.Add(1)
					}
				}
			})
		}
	}
	mischief.Go(func() { // each time it goes on first
		for {
			select {
			case <-done:
				return
			case <-time.After(rand.N(20 * time.Millisecond)):
				disturb()
			}
			before, began := held.Load(), time.Now()
			for held.Load() < before+5 {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
				if time.Since(began) > time.Minute {
					failed <- fmt.Errorf("after %d of %d grants it does not go on: somebody is left waiting", held.Load(), clients*each*cycles)
					return
				}
			}
		}
	})
	all := make(chan struct{})
	go func() { workers.Wait(); close(all) }()
	select {
	case <-all:
	case err := <-failed:
		t.Error(err)
	}
	close(done)
	mischief.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d grants, %d of them lost", held.Load(), lost.Load())
}

// cycles is how often each has to hold: more often with REDISLOCK_CYCLES, a factor.
func cycles(t *testing.T, n int) int {
	if text := os.Getenv("REDISLOCK_CYCLES"); text != "" {
		factor, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("REDISLOCK_CYCLES: %v", err)
		}
		n *= factor
	}
	return n
}

func opener(t *testing.T, url string, opts ...interlock.ClientOption) func() *interlock.Client {
	return func() *interlock.Client {
		t.Helper()
		c, err := interlock.Open(t.Context(), url, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// Promise: connections that are killed and scripts that are flushed at any moment
// leave one holder at a time, nobody waiting, and no key behind but the tokens.
func TestKilledConnectionsAndFlushedScripts(t *testing.T) {
	s := redistest.Start(t)
	crowd(t, opener(t, s.URL(), interlock.TTL(3*time.Second)), 4, 8, cycles(t, 20), func() {
		switch rand.IntN(3) {
		case 0:
			s.KillConnections("normal")
		case 1:
			s.KillConnections("pubsub")
		case 2:
			s.FlushScripts()
		}
	})
	onlyTokens(t, s)
}

// Promise: a server that is killed and comes back with its data leaves one holder at
// a time and nobody waiting.
func TestKilledServer(t *testing.T) {
	s := redistest.Start(t, redistest.Durable())
	crowd(t, opener(t, s.URL(), interlock.TTL(2*time.Second)), 4, 6, cycles(t, 30),
		func() { time.Sleep(300 * time.Millisecond); s.Kill(); s.Restart() },
	)
	onlyTokens(t, s)
}

// onlyTokens waits until nothing is left of the locks but what keeps tokens growing,
// which goes away by itself.
func onlyTokens(t *testing.T, s *redistest.Server) {
	t.Helper()
	var left []string
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		left = left[:0]
		for _, k := range s.Keys() {
			if ttl, _ := s.Do("PTTL", k); ttl == int64(-1) {
				t.Fatalf("the key %q stays for ever", k)
			}
			if len(k) < 2 || k[len(k)-2:] != ":t" {
				left = append(left, k)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("keys that are left: %q", left)
}
