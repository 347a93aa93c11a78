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
	const (
		nests     = "nests"
		deadlocks = "deadlocks"
		adds      = "adds" // is an acquire of its own
	)
	re, two := interlock.Reentrant(), interlock.Weight(2)
	simulated(t, alone(func(t *testing.T, a member) {
		m, rw, rwRe := a.Mutex("m"), a.RWMutex("m"), a.RWMutex("m", re)
		s := func(opts ...interlock.Option) *interlock.Lock { return a.Semaphore("m", 3, opts...) }
		for name, c := range map[string]struct {
			outer, inner *interlock.Lock
			want         string
		}{
			"mutex":                                {m, m, deadlocks},
			"reentrant mutex":                      {m, m.With(re), nests},
			"other name":                           {m, a.Mutex("other"), adds},
			"reader in reader":                     {rw.Reader(), rw.Reader(), deadlocks},
			"reentrant reader in reader":           {rw.Reader(), rwRe.Reader(), nests},
			"reader in writer":                     {rw.Writer(), rw.Reader(), deadlocks},
			"reentrant reader in writer":           {rw.Writer(), rwRe.Reader(), nests},
			"writer in writer":                     {rw.Writer(), rwRe.Writer(), nests},
			"upgrade":                              {rw.Reader(), rwRe.Writer(), deadlocks},
			"permits that fit":                     {s(two), s(), adds},
			"permits that can never fit":           {s(two), s(two), deadlocks},
			"reentrant permits":                    {s(two), s(two, re), nests},
			"more reentrant permits than are held": {s(), s(two, re), adds},
			"candidate":                            {a.Election("m").Candidate("1"), a.Election("m").Candidate("2"), deadlocks},
		} {
			t.Log(name) // what follows is of this row
			outer := acquire(t, c.outer)
			held, free := outer.Bind(ctx)
			excluded := c.outer
			if name == "reentrant reader in reader" {
				excluded = rw.Writer()
			}
			before := a.Admin().Exchanges()
			inner, err := c.inner.Acquire(held)
			switch exchanges := a.Admin().Exchanges() - before; c.want {
			case deadlocks:
				wantErr(t, err, interlock.ErrDeadlock)
			case nests:
				ok(t, err)
				failIf(t, exchanges > 0 || inner.Token() != outer.Token(), "%d exchanges, token %d in %d", exchanges, inner.Token(), outer.Token())
				ok(t, outer.Release())
				ok(t, inner.Err())
				// The lock is held until the inner lease is released too.
				wantErr(t, errOf(excluded.TryAcquire(ctx)), interlock.ErrBusy)
			case adds:
				ok(t, err)
				failIf(t, inner.Token() == outer.Token() && exchanges == 0, "nested")
			}
			if inner != nil {
				ok(t, inner.Release())
			}
			if outer.Err() == nil {
				ok(t, outer.Release())
			}
			free()
		}
	}))
}

// Whatever is given the context is the holder; a detached context holds
// nothing, and a lost lease does not count.
func TestTheContextIsTheHolder(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		l := a.Mutex("m")
		ok(t, l.Do(ctx, func(held context.Context) error {
			holds(t, l, held, true)
			holds(t, a.Mutex("other"), held, false)
			holds(t, l, interlock.Detach(held), false)
			if inside, detached := interlock.LeaseFrom(held), interlock.LeaseFrom(interlock.Detach(held)); inside.Name() != "m" || inside.Err() != nil || detached != nil || interlock.LeaseFrom(ctx) != nil {
				t.Errorf("LeaseFrom returns %v, and %v of a detached context", inside, detached)
			}
			wantErr(t, errOf(l.TryAcquire(interlock.Detach(held))), interlock.ErrBusy)
			wantErr(t, (<-async(held, l)).err, interlock.ErrDeadlock)
			nested := a.Mutex("inner")
			return nested.Do(held, func(both context.Context) error {
				equal(t, interlock.LeaseFrom(both).Name(), "inner", "the innermost lease is that of")
				for _, l := range []*interlock.Lock{l, nested} {
					holds(t, l, both, true)
				}
				return nil
			})
		}))
		lease := acquire(t, l)
		held, free := lease.Bind(ctx)
		defer free()
		a.faults().Expire()
		time.Sleep(time.Second)
		holds(t, l, held, false)
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
		wantErr(t, context.Cause(bind(t, lease)), interlock.ErrReleased)
	}))
}

// The permits of nested leases are held once: what fits beside them is no deadlock.
func TestNestedPermitsCountOnce(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		outer := acquire(t, a.Semaphore("s", 3))
		held := bind(t, outer)
		inner := errtest.Must(a.Semaphore("s", 3, interlock.Reentrant()).Acquire(held))(t)
		both, cancel2 := inner.Bind(held)
		defer cancel2()
		ok(t, errtest.Must(a.Semaphore("s", 3, interlock.Weight(2)).Acquire(both))(t).Release())
		wantErr(t, errOf(a.Semaphore("s", 3, interlock.Weight(3)).Acquire(both)), interlock.ErrDeadlock)
		ok(t, inner.Release())
		ok(t, outer.Release())
	}))
}
