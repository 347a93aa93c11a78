package interlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// What an acquire comes to with a context that holds the lock already.
func TestAcquireWhatTheContextHolds(t *testing.T) {
	re := interlock.Reentrant()
	const (
		nests     = "nests"
		deadlocks = "deadlocks"
		adds      = "adds" // is an acquire of its own
	)
	for name, c := range map[string]struct {
		outer, inner func(*interlock.Client) *interlock.Lock
		want         string
	}{
		"mutex": {
			func(c *interlock.Client) *interlock.Lock { return c.Mutex("m") },
			func(c *interlock.Client) *interlock.Lock { return c.Mutex("m") }, deadlocks},
		"reentrant mutex": {
			func(c *interlock.Client) *interlock.Lock { return c.Mutex("m") },
			func(c *interlock.Client) *interlock.Lock { return c.Mutex("m", re) }, nests},
		"other name": {
			func(c *interlock.Client) *interlock.Lock { return c.Mutex("m") },
			func(c *interlock.Client) *interlock.Lock { return c.Mutex("other") }, adds},
		"reader in reader": {
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Reader() },
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Reader() }, deadlocks},
		"reentrant reader in reader": {
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Reader() },
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m", re).Reader() }, nests},
		"reader in writer": {
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Writer() },
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Reader() }, deadlocks},
		"reentrant reader in writer": {
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Writer() },
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m", re).Reader() }, nests},
		"writer in writer": {
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Writer() },
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m", re).Writer() }, nests},
		"upgrade": {
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m").Reader() },
			func(c *interlock.Client) *interlock.Lock { return c.RWMutex("m", re).Writer() }, deadlocks},
		"permits that fit": {
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3, interlock.Weight(2)) },
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3) }, adds},
		"permits that can never fit": {
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3, interlock.Weight(2)) },
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3, interlock.Weight(2)) }, deadlocks},
		"reentrant permits": {
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3, interlock.Weight(2)) },
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3, interlock.Weight(2), re) }, nests},
		"more reentrant permits than are held": {
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3) },
			func(c *interlock.Client) *interlock.Lock { return c.Semaphore("m", 3, interlock.Weight(2), re) }, adds},
		"candidate": {
			func(c *interlock.Client) *interlock.Lock { return c.Election("m").Candidate("1") },
			func(c *interlock.Client) *interlock.Lock { return c.Election("m").Candidate("2") }, deadlocks},
	} {
		simulatedAs(t, name, alone(func(t *testing.T, a member) {
			outer := acquire(t, c.outer(a.Client))
			held, cancel := outer.Bind(ctx)
			defer cancel()
			excluded := c.outer(a.Client)
			if name == "reentrant reader in reader" {
				excluded = a.RWMutex("m").Writer()
			}
			before := a.Admin().Exchanges()
			inner, err := c.inner(a.Client).Acquire(held)
			switch exchanges := a.Admin().Exchanges() - before; c.want {
			case deadlocks:
				wantErr(t, err, interlock.ErrDeadlock)
			case nests:
				ok(t, err)
				if exchanges > 0 || inner.Token() != outer.Token() {
					t.Errorf("%d exchanges, token %d in %d", exchanges, inner.Token(), outer.Token())
				}
				ok(t, outer.Release())
				ok(t, inner.Err())
				// The lock is held until the inner lease is released too.
				wantErr(t, errOf(excluded.TryAcquire(ctx)), interlock.ErrBusy)
			case adds:
				ok(t, err)
				if inner.Token() == outer.Token() && exchanges == 0 {
					t.Error("nested")
				}
			}
			if inner != nil {
				ok(t, inner.Release())
			}
			if outer.Err() == nil {
				ok(t, outer.Release())
			}
		}))
	}
}

// Whatever is given the context is the holder; a detached context holds
// nothing, and a lost lease does not count.
func TestTheContextIsTheHolder(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		l := a.Mutex("m")
		ok(t, l.Do(ctx, func(held context.Context) error {
			if _, ok := l.Held(held); !ok {
				t.Error("not held")
			}
			if _, ok := a.Mutex("other").Held(held); ok {
				t.Error("another lock is held")
			}
			if _, ok := l.Held(interlock.Detach(held)); ok {
				t.Error("held by a detached context")
			}
			if inside, detached := interlock.LeaseFrom(held), interlock.LeaseFrom(interlock.Detach(held)); inside.Name() != "m" || inside.Err() != nil || detached != nil || interlock.LeaseFrom(ctx) != nil {
				t.Errorf("LeaseFrom returns %v, and %v of a detached context", inside, detached)
			}
			wantErr(t, errOf(l.TryAcquire(interlock.Detach(held))), interlock.ErrBusy)
			done := make(chan error)
			go func() {
				_, err := l.Acquire(held)
				done <- err
			}()
			wantErr(t, <-done, interlock.ErrDeadlock)
			nested := a.Mutex("inner")
			return nested.Do(held, func(both context.Context) error {
				if l := interlock.LeaseFrom(both); l.Name() != "inner" {
					t.Errorf("the innermost lease is that of %s", l.Name())
				}
				for _, l := range []*interlock.Lock{l, nested} {
					if _, ok := l.Held(both); !ok {
						t.Error("not held")
					}
				}
				return nil
			})
		}))
		lease := acquire(t, l)
		held, cancel := lease.Bind(ctx)
		defer cancel()
		a.faults().Expire()
		time.Sleep(time.Second)
		if _, ok := l.Held(held); ok {
			t.Error("a lost lease is held")
		}
		wantErr(t, interlock.LeaseFrom(held).Err(), interlock.ErrLost)
		ok(t, errtest.Must(l.Acquire(context.WithoutCancel(held)))(t).Release())
	}))
}

// A context that is bound to a lease is freed by its function, and has a cause.
func TestBind(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		lease := acquire(t, a.Mutex("m"))
		var bound []context.Context
		var cancels []context.CancelFunc
		for range 5 {
			b, cancel := lease.Bind(ctx)
			bound, cancels = append(bound, b), append(cancels, cancel)
		}
		for _, i := range []int{2, 0, 4, 4} {
			cancels[i]()
			wantErr(t, context.Cause(bound[i]), context.Canceled)
		}
		ok(t, lease.Release())
		for _, i := range []int{1, 3} {
			wantErr(t, context.Cause(bound[i]), interlock.ErrReleased)
			cancels[i]()
		}
		late, cancel := lease.Bind(ctx)
		defer cancel()
		wantErr(t, context.Cause(late), interlock.ErrReleased)
	}))
}

// The permits of nested leases are held once: what fits beside them is no deadlock.
func TestNestedPermitsCountOnce(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		outer := acquire(t, a.Semaphore("s", 3))
		held, cancel := outer.Bind(ctx)
		defer cancel()
		inner := errtest.Must(a.Semaphore("s", 3, interlock.Reentrant()).Acquire(held))(t)
		both, cancel2 := inner.Bind(held)
		defer cancel2()
		ok(t, errtest.Must(a.Semaphore("s", 3, interlock.Weight(2)).Acquire(both))(t).Release())
		wantErr(t, errOf(a.Semaphore("s", 3, interlock.Weight(3)).Acquire(both)), interlock.ErrDeadlock)
		ok(t, inner.Release())
		ok(t, outer.Release())
	}))
}
