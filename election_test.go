package interlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

func TestCandidatesLeadInTheirOrder(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		observe, stop := context.WithCancel(ctx)
		leaders := make(chan string, 100)
		ends := make(chan struct{})
		go func() {
			defer close(ends)
			for m, err := range b.Election("e").Observe(observe) {
				if err != nil {
					t.Error(err)
				}
				leaders <- m.Note
			}
		}()
		synctest.Wait()
		first, err := a.Election("e").Campaign(ctx, "first")
		ok(t, err)
		second := async(ctx, b.Election("e").Candidate("second"))
		synctest.Wait()
		third := async(ctx, a.Election("e").Candidate("third"))
		synctest.Wait()
		ok(t, first.Release())
		r := <-second
		ok(t, r.err)
		synctest.Wait()
		b.faults().Expire() // the second dies
		r = <-third
		ok(t, r.err)
		synctest.Wait()
		ok(t, r.lease.Release())
		synctest.Wait()
		stop()
		<-ends
		close(leaders)
		var seen []string
		for l := range leaders {
			seen = append(seen, l)
		}
		if want := []string{"", "first", "second", "third", ""}; !equal(seen, want) {
			t.Errorf("leaders %q, want %q", seen, want)
		}
	})
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Lead hands over cleanly when its function returns, and campaigns again after
// a loss, once its function has returned.
func TestLead(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w), join(t, w)
		terms := 0
		own := errors.New("own")
		led := make(chan error, 1)
		go func() {
			led <- a.Election("e", interlock.Robust()).Lead(ctx, "a", func(held context.Context) error {
				if terms++; terms < 3 {
					<-held.Done()
					wantErr(t, context.Cause(held), interlock.ErrLost)
					return held.Err()
				}
				return own
			})
		}()
		for range 2 {
			synctest.Wait()
			a.faults().Expire()
			time.Sleep(time.Second)
		}
		if err := <-led; err != own || terms != 3 {
			t.Errorf("%v after %d terms", err, terms)
		}
		next, err := b.Election("e", interlock.Robust()).Campaign(ctx, "b")
		ok(t, err)
		if next.Inherited() {
			t.Error("not handed over cleanly")
		}
		ok(t, next.Release())

		ending, cancel := context.WithCancel(ctx)
		go func() {
			led <- a.Election("e").Lead(ending, "a", func(held context.Context) error {
				<-held.Done()
				return context.Cause(held)
			})
		}()
		synctest.Wait()
		cancel()
		wantErr(t, <-led, context.Canceled)

		// The loss of another lock is no loss of the leadership.
		ok(t, a.Mutex("m").Do(ctx, func(context.Context) error { return nil }))
		wantErr(t, a.Election("e").Lead(ctx, "a", func(context.Context) error { return interlock.ErrLost }), interlock.ErrLost)
		nothingLeft(t, a, b)
	})
}

func TestCloseEndsLead(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		led := make(chan error, 1)
		go func() {
			led <- a.Election("e").Lead(ctx, "a", func(held context.Context) error {
				<-held.Done()
				return context.Cause(held)
			})
		}()
		synctest.Wait()
		ok(t, a.Close())
		wantErr(t, <-led, interlock.ErrClosed)
		wantErr(t, a.Election("e").Lead(ctx, "a", nil), interlock.ErrClosed)
	})
}
