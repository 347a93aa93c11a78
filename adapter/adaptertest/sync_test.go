package adaptertest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/synclock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: one goroutine of one process has the lock at a time.
func TestSyncExcludesGoroutinesAndProcesses(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		var in, sum atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			l := synclock.New(open(t, url).Client, "name", nil)
			for range 4 {
				wg.Go(func() {
					for range 5 {
						l.Lock()
						if n := in.Add(1); n != 1 {
							t.Errorf("%d are in at once", n)
						}
						sum.Add(1)
						in.Add(-1)
						l.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if sum.Load() != 40 {
			t.Errorf("%d were in", sum.Load())
		}
	})
}

func init() {
	holders["sync"] = func(url string) error {
		c, err := openHolder(url)
		if err == nil {
			synclock.New(c, "name", nil).Lock()
			holds()
		}
		return err
	}
}

// Promise: a process that waits goes on when the holder has been killed.
func TestSyncGoesOnWhenTheHolderIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		kill := startHolder(t, "sync", url)
		c := open(t, url)
		l, locked := synclock.New(c.Client, "name", nil), make(chan struct{})
		go func() { l.Lock(); close(locked) }()
		errtest.None(t, c.waiting(t.Context(), "name", 1))
		kill()
		errtest.Received(t, "Lock", locked)
		l.Unlock()
	})
}

// Promise: Unlock tells of the loss, and until then no other goroutine of the process has the lock.
func TestSyncTellsThatTheLockWasLost(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		var lost error
		l, locked := synclock.New(c.Client, "name", func(err error) { lost = err }), make(chan struct{})
		var first atomic.Bool
		first.Store(true)
		l.Lock()
		errtest.None(t, c.loses(t.Context(), "name", true))
		go func() {
			l.Lock()
			if first.Load() {
				t.Error("two goroutines have the lock")
			}
			close(locked)
		}()
		errtest.None(t, c.granted(2)) // the other one has had the lease, and given it back
		first.Store(false)
		l.Unlock()
		errtest.Is(t, lost, interlock.ErrLost, "what Unlock tells")
		errtest.Received(t, "Lock of the other goroutine", locked)
		l.Unlock()
	})
}

// Promise: what can never succeed panics.
func TestSyncPanics(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), "mem:"))(t)
	panics := func(want error, f func()) {
		t.Helper()
		defer func() {
			err, _ := recover().(error)
			errtest.Is(t, err, want, "the panic")
		}()
		f()
	}
	l := synclock.New(c, "name", nil)
	panics(interlock.ErrReleased, l.Unlock)
	panics(interlock.ErrInvalid, synclock.New(c, "", nil).Lock)
	l.Lock()
	q := errtest.Must(c.Admin().Queue(t.Context(), "name"))(t)
	errtest.None(t, c.Admin().Evict(t.Context(), "name", q.Holders[0].ID, true))
	panics(interlock.ErrLost, l.Unlock)
	errtest.None(t, c.Close())
	panics(interlock.ErrClosed, l.Lock)
}
