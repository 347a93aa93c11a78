package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: while nobody is granted anything after a crash, each try and each wait that ends says so, and for how long,
// and is ErrUnavailable: whether those of before still hold is not known. So does inspection. After that, who waits is
// busy again.
func TestWhoWaitsAfterACrashIsToldWhy(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	s := pgtest.Start(t)
	all := clients(t, 2, s.URL(), interlock.TTL(ttl))
	a, b := all[0], all[1]
	held := errtest.Must(a.Mutex("nightly").Acquire(t.Context()))(t)
	free := errtest.Must(b.Admin().Queue(t.Context(), "free"))(t)
	if !free.Paused.IsZero() {
		t.Errorf("before the crash nothing is granted until %v", free.Paused)
	}
	began := time.Now()
	s.Kill()
	s.Restart()
	<-held.Done()

	const why = "nothing is granted for another "
	try := func() error {
		_, err := b.Mutex("nightly").TryAcquire(t.Context())
		switch {
		case err == nil:
			t.Fatalf("granted %v after the crash", time.Since(began))
		case errors.Is(err, interlock.ErrBusy):
			t.Fatalf("%v after the crash: %v", time.Since(began), err)
		}
		return err
	}
	busy.Until(t, "a try says why", func() bool { return strings.Contains(try().Error(), why) })
	wait := func(ctx context.Context, opts ...interlock.Option) error {
		_, err := b.Mutex("nightly", opts...).Acquire(ctx)
		return err
	}
	waits := map[string]func() error{
		"Wait":                             func() error { return wait(t.Context(), interlock.Wait(3*time.Second)) },
		"Wait, in line behind its process": func() error { return wait(t.Context(), interlock.Wait(2*time.Second)) },
		"a deadline": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			return wait(ctx)
		},
	}
	ends := make(chan func(), len(waits))
	for what, f := range waits {
		go func() {
			err := f()
			ends <- func() {
				if !errors.Is(err, interlock.ErrUnavailable) || errors.Is(err, interlock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), why) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}()
	}
	for range waits {
		(<-ends)()
	}
	q := errtest.Must(b.Admin().Queue(t.Context(), "nightly"))(t)
	if left := q.Paused.Sub(began); left < ttl || left > ttl+time.Minute {
		t.Errorf("the crash was at %v, and nothing is granted until %v", began, q.Paused)
	}

	got := errtest.Must(b.Mutex("nightly").Acquire(t.Context()))(t)
	defer got.Release()
	if time.Since(began) < ttl {
		t.Errorf("granted %v after the crash", time.Since(began))
	}
	busy.Until(t, "a client says that the lock is busy", func() bool {
		_, err := a.Mutex("nightly").TryAcquire(t.Context())
		return errors.Is(err, interlock.ErrBusy)
	})
}
