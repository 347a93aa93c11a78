package interlock_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

func TestALatchOpensAtZero(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		waits := make(chan error, 2)
		for _, m := range []member{a, b} { // before it is set
			go func() { waits <- m.Latch("l").Wait(ctx) }()
		}
		synctest.Wait()
		if _, err := a.Latch("l").CountDown(ctx); err == nil {
			t.Error("counted down a latch that is not set")
		}
		for _, want := range []bool{true, false} {
			set, err := a.Latch("l").Set(ctx, 20)
			ok(t, err)
			if set != want {
				t.Errorf("set %v, want %v", set, want)
			}
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if _, err := []member{a, b}[i%2].Latch("l").CountDown(ctx); err != nil {
					t.Error(err)
				}
			})
			if i < 19 {
				wg.Wait()
				synctest.Wait()
				if len(waits) > 0 {
					t.Fatal("open too early")
				}
			}
		}
		wg.Wait()
		ok(t, <-waits)
		ok(t, <-waits)
		left, err := b.Latch("l").CountDown(ctx)
		ok(t, err)
		if left != 0 {
			t.Errorf("%d left", left)
		}
		ok(t, b.Latch("l").Wait(ctx))
	})
}

// A count down that others overtake returns what is left, which is what they have left.
func TestACountDownThatIsOvertakenReturnsWhatIsLeft(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		_, err := a.Latch("l").Set(ctx, 2)
		ok(t, err)
		swap := a.faults().Before("Swap", 1).Hang()
		left := make(chan int64, 1)
		go func() {
			n, err := a.Latch("l").CountDown(ctx)
			if err != nil {
				t.Error(err)
			}
			left <- n
		}()
		<-swap.Reached()
		for range 2 {
			_, err := b.Latch("l").CountDown(ctx)
			ok(t, err)
		}
		swap.Deliver()
		if n := <-left; n != 0 {
			t.Errorf("%d left of none", n)
		}
	})
}

// Who waits for a latch that is reset goes on waiting, for its next Set.
func TestALatchCanBeSetAgain(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		l := a.Latch("l")
		set := func(n int64) {
			t.Helper()
			set, err := l.Set(ctx, n)
			ok(t, err)
			if !set {
				t.Fatal("set already")
			}
		}
		set(2)
		waits := make(chan error, 1)
		go func() { waits <- l.Wait(ctx) }()
		synctest.Wait()
		ok(t, l.Reset(ctx))
		ok(t, l.Reset(ctx))
		if _, set, err := l.Count(ctx); set || err != nil {
			t.Error(set, err)
		}
		set(1)
		synctest.Wait()
		if len(waits) > 0 {
			t.Fatal("open")
		}
		_, err := l.CountDown(ctx)
		ok(t, err)
		ok(t, <-waits)
		_, err = l.Set(ctx, 0)
		wantErr(t, err, interlock.ErrInvalid)
	})
}

func TestABarrierKeepsEverybodyWaiting(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		ok(t, b.Barrier("b").Wait(ctx)) // open
		ok(t, a.Barrier("b").Set(ctx))
		ok(t, b.Barrier("b").Set(ctx))
		waits := make(chan error, 10)
		for i := range cap(waits) {
			go func() { waits <- []member{a, b}[i%2].Barrier("b").Wait(ctx) }()
		}
		over, cancel := context.WithCancel(ctx)
		cancelled := make(chan error, 1)
		go func() { cancelled <- a.Barrier("b").Wait(over) }()
		synctest.Wait()
		cancel()
		wantErr(t, <-cancelled, context.Canceled)
		if set, err := b.Barrier("b").IsSet(ctx); !set || err != nil || len(waits) > 0 {
			t.Error(set, err, len(waits))
		}
		ok(t, a.Barrier("b").Remove(ctx))
		ok(t, a.Barrier("b").Remove(ctx))
		for range cap(waits) {
			ok(t, <-waits)
		}
		if set, err := b.Barrier("b").IsSet(ctx); set || err != nil {
			t.Error(set, err)
		}
	})
}

// Promise: a count that is no number is an error of a short line, however long it is.
func TestACountThatIsNoNumberIsAShortError(t *testing.T) {
	simulated(t, func(t *testing.T) {
		d := memlock.New()
		c, err := interlock.New(ctx, d)
		ok(t, err)
		defer c.Close()
		_, err = d.Swap(ctx, driver.Swap{ID: strings.Repeat("0", 32), Name: "l/latch", Value: bytes.Repeat([]byte("x"), driver.MaxCell)})
		ok(t, err)
		_, _, err = c.Latch("l").Count(ctx)
		if err == nil || len(err.Error()) > 100 || !strings.Contains(err.Error(), "xxx…") {
			t.Errorf("%.200v", err)
		}
	})
}
