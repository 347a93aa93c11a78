package interlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// Promise: with NameHolders a try, and a wait that ends, say on one line who holds the lock, since when and why.
func TestABusyLockSaysWhoHoldsIt(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w, interlock.Owner("host1:1"), interlock.Prefix("app/")), join(t, w, interlock.Prefix("app/"))
		first := acquire(t, a.Semaphore("imports", 2, interlock.Note("line 1\nline 2")))
		second := acquire(t, a.Semaphore("imports", 2))
		want := "interlock: acquire imports: busy: held by host1:1 since " + time.Now().Local().Format(time.DateTime) + ` ("line 1\nline 2") and 1 more`
		l := b.Semaphore("imports", 2, interlock.NameHolders())
		for name, acquire := range map[string]func() (*interlock.Lease, error){
			"try":     func() (*interlock.Lease, error) { return l.TryAcquire(ctx) },
			"wait":    func() (*interlock.Lease, error) { return l.With(interlock.Wait(time.Second)).Acquire(ctx) },
			"no wait": func() (*interlock.Lease, error) { return l.With(interlock.Wait(0)).Acquire(ctx) },
			"work": func() (*interlock.Lease, error) {
				return nil, l.With(interlock.Wait(0)).Do(ctx, func(context.Context) error { return nil })
			},
		} {
			_, err := acquire()
			var busy *interlock.BusyError
			if !errors.Is(err, interlock.ErrBusy) || !errors.As(err, &busy) || len(busy.Holders) != 2 || err.Error() != want {
				t.Errorf("%s: %v\nwant %s", name, err, want)
			}
		}
		equal(t, errOf(b.Semaphore("imports", 2).TryAcquire(ctx)).Error(), "interlock: acquire imports: busy", "without NameHolders")
		ok(t, errors.Join(first.Release(), second.Release()))
	})
}

// Promise: where the backend does not say who holds, a busy lock is busy, half a second later at most.
func TestABusyLockIsBusyWhenTheHolderIsNotKnown(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m"))
		hung := b.faults().Before("Follow", 0).Hang()
		began := time.Now()
		_, err := b.Mutex("m", interlock.NameHolders()).TryAcquire(ctx)
		took := time.Since(began)
		failIf(t, !errors.Is(err, interlock.ErrBusy) || took > time.Second, "%v after %v", err, took)
		b.faults().Clear()
		hung.Deliver()
		ok(t, lease.Release())
	})
}

// Promise: what passes is worth another try; what the next try would bring again, and an error of the work, is not.
func TestWhatPassesIsRetryable(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		lease := acquire(t, a.Mutex("m"))
		do := func(l *interlock.Lock) error { return l.Do(ctx, func(context.Context) error { return nil }) }
		check := func(what string, err error, want bool) {
			failIf(t, err == nil || interlock.Retryable(err) != want, "%s: %v, want it retryable: %v", what, err, want)
		}
		check("busy", do(b.Mutex("m", interlock.Wait(0))), true)
		check("another kind", do(b.RWMutex("m", interlock.Wait(0)).Reader()), false)
		check("a wrong name", do(b.Mutex("")), false)
		check("the work", b.Mutex("other").Do(ctx, func(context.Context) error { return errors.New("broken") }), false)
		b.faults().Cut()
		check("away", do(b.Mutex("other", interlock.Wait(time.Second))), true)
		b.faults().Heal()
		ok(t, a.Admin().Evict(ctx, "m", lease.ID(), true))
		check("lost", lease.Release(), true)
		ok(t, b.Close())
		check("closed", do(b.Mutex("m")), false)
	})
}

// Promise: an owner steers no terminal by the text of an error.
func TestAnOwnerIsQuotedInErrors(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		lease := acquire(t, join(t, w, interlock.Owner("a\x1b[31m")).Mutex("m"))
		b := join(t, w)
		for _, l := range []*interlock.Lock{b.RWMutex("m").Reader(), b.Mutex("m", interlock.NameHolders())} {
			_, err := l.TryAcquire(ctx)
			failIf(t, err == nil || strings.Contains(err.Error(), "\x1b") || !strings.Contains(err.Error(), `\x1b[31m`), "%q", err)
		}
		ok(t, lease.Release())
	})
}
