package pglock_test

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
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// scaled is a count that an environment variable makes larger.
func scaled(variable string, count int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return count
}

// account is who holds one lock.
type account struct {
	chaos.Witness
	t       *testing.T
	grants  *atomic.Int64
	backend atomic.Uint64
	granted func(token uint64, at time.Time) // told of each grant of the backend
}

func (a *account) enter(l *interlock.Lease) {
	at := time.Now()
	holds, err := a.Enter(l)
	if err != nil {
		a.t.Error(err)
	}
	if !holds {
		return
	}
	a.grants.Add(1)
	if b := l.BackendToken(); a.backend.Swap(b) != b && a.granted != nil {
		a.granted(b, at)
	}
}

// work holds the lock again and again, often for a moment, sometimes for longer, now
// and then for a fixed time, tries only, or gives up waiting, until it is told to stop.
// It waits no longer than the context lasts.
func (a *account) work(all context.Context, lock *interlock.Lock, stop <-chan struct{}) {
	for !ended(stop) && all.Err() == nil {
		ctx, cancel := context.WithCancel(all)
		if rand.IntN(10) == 0 {
			ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		}
		acquire, tries := lock.Acquire, false
		switch rand.IntN(20) {
		case 0:
			acquire, tries = lock.TryAcquire, true
		case 1:
			acquire = lock.With(interlock.ExpiresAfter(time.Second)).Acquire
		}
		l, err := acquire(ctx)
		gaveUp := ctx.Err() != nil
		cancel()
		switch {
		case err != nil && (gaveUp || tries || errors.Is(err, interlock.ErrEvicted)):
			continue
		case err != nil:
			a.t.Errorf("%q: %v", lock.Name(), err)
			return
		}
		a.enter(l)
		switch rand.IntN(8) {
		case 0:
			time.Sleep(rand.N(20 * time.Millisecond))
		case 1, 2, 3:
			time.Sleep(rand.N(time.Millisecond))
		}
		a.Leave(l)
		_ = l.Release() // what is lost is lost
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// load is clients that work under two locks.
type load struct {
	t       *testing.T
	grants  atomic.Int64
	stop    chan struct{}
	workers sync.WaitGroup
}

// startLoad starts each client's goroutines on both locks, one of them in strict
// order. Each grant of the database is told to granted, unless that is nil.
func startLoad(t *testing.T, clients []*interlock.Client, each int, granted func(token uint64, at time.Time)) *load {
	w := &load{t: t, stop: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); w.workers.Wait() }) // a test that fails leaves nobody at work
	one, two := &account{t: t, grants: &w.grants, granted: granted}, &account{t: t, grants: &w.grants, granted: granted}
	for _, c := range clients {
		for range each {
			w.workers.Go(func() { one.work(ctx, c.Mutex("load/one"), w.stop) })
			w.workers.Go(func() { two.work(ctx, c.Mutex("load/two", interlock.StrictOrder()), w.stop) })
		}
	}
	return w
}

// goesOn waits for more grants.
func (w *load) goesOn() {
	w.t.Helper()
	before := w.grants.Load()
	busy.Until(w.t, "the load goes on", func() bool { return w.grants.Load() >= before+10 })
}

// end lets everybody hold and leave once more: nobody may be left waiting.
func (w *load) end() {
	w.t.Helper()
	close(w.stop)
	all := make(chan struct{})
	go func() { w.workers.Wait(); close(all) }()
	busy.Until(w.t, "everybody who waits is served", func() bool { return ended(all) })
}

// clients are some, each with connections of its own.
func clients(t *testing.T, n int, url string, opts ...interlock.ClientOption) []*interlock.Client {
	t.Helper()
	all := make([]*interlock.Client, n)
	for i := range all {
		all[i] = errtest.Must(interlock.Open(t.Context(), url, append(opts, interlock.Owner(fmt.Sprint("client ", i)))...))(t)
		t.Cleanup(func() { _ = all[i].Close() })
	}
	return all
}

// showTables shows who stands where, if the test fails.
func showTables(t *testing.T, s *pgtest.Server) {
	t.Cleanup(func() {
		if t.Failed() && s.Alive() {
			for _, table := range []string{"sentinel", "meta", "session", "queue", "ticket WHERE hold = 0"} {
				t.Logf("%s:\n%s", table, s.SQL("SELECT * FROM interlock."+table))
			}
			t.Logf("now: %s", s.SQL("SELECT extract(epoch FROM now()) * 1000000"))
		}
	})
}
