package interlock_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Update gives up when others are faster again and again.
func TestUpdateIsBounded(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		v, other := interlock.NewValue[int](a.Client, "v"), interlock.NewValue[int](b.Client, "v")
		tries := 0
		_, err := v.Update(ctx, func(n int) (int, error) {
			tries++
			errtest.Must(other.Update(ctx, func(n int) (int, error) { return n + 1, nil }))(t)
			return n, nil
		})
		wantErr(t, err, interlock.ErrConflict)
		failIf(t, tries != interlock.MaxUpdates, "%d tries", tries)
		own := errors.New("own")
		wantErr(t, errOf(v.Update(ctx, func(n int) (int, error) { return 0, own })), own)
	}))
}

func TestBytesAreStoredAsTheyAre(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		raw := interlock.NewValue[[]byte](a.Client, "raw")
		version := errtest.Must(raw.Set(ctx, []byte{0xff, 0}, 0))(t)
		got := errtest.Must(raw.Get(ctx))(t)
		failIf(t, !bytes.Equal(got.Value, []byte{0xff, 0}), "%x", got.Value)
		_, err := interlock.NewValue[int](a.Client, "raw").Get(ctx)
		failIf(t, err == nil, "no error for a value of another type")
		wantErr(t, errOf(raw.Set(ctx, make([]byte, driver.MaxCell+1), version)), interlock.ErrInvalid)
		_, err = raw.Update(ctx, func([]byte) ([]byte, error) { return make([]byte, driver.MaxCell+1), nil })
		wantErr(t, err, interlock.ErrInvalid)
		version = errtest.Must(raw.Set(ctx, make([]byte, driver.MaxCell), version))(t)
		wantErr(t, errOf(raw.Set(ctx, nil, 0)), interlock.ErrConflict)
		ok(t, raw.Delete(ctx, version))
		errtest.Must(raw.Set(ctx, nil, 0))(t)
		_, err = interlock.NewValue[func()](a.Client, "f").Set(ctx, nil, 0)
		failIf(t, err == nil, "a function was stored")
	}))
}

// A change whose answer does not come is repeated as long as the backend is sure to recognise
// it, and no longer: it could be made twice.
func TestAChangeIsNotRepeatedForLongerThanItIsRecognised(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		a.faults().Before("Swap", 0).Fail()
		bounded := lasting(t, 3*driver.SwapMemory)
		began := time.Now()
		_, err := interlock.NewValue[int](a.Client, "v").Set(bounded, 1, 0)
		failIf(t, err == nil || errors.Is(err, context.DeadlineExceeded), "it ended with %v", err)
		wantErr(t, err, memlock.ErrFailed)
		within(t, began, driver.SwapMemory-1, "repeated for")
	}))
}

// A count down that others overtake returns what is left, which is what they have left.
func TestACountDownThatIsOvertakenReturnsWhatIsLeft(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		errtest.Must(a.Latch("l").Set(ctx, 2))(t)
		swap := a.faults().Before("Swap", 1).Hang()
		left := make(chan int64, 1)
		go func() {
			n, err := a.Latch("l").CountDown(ctx)
			errtest.Is(t, err, nil)
			left <- n
		}()
		<-swap.Reached()
		for range 2 {
			errtest.Must(b.Latch("l").CountDown(ctx))(t)
		}
		swap.Deliver()
		equal(t, <-left, 0, "left")
	}))
}

// Who waits for a latch that is reset goes on waiting, for its next Set.
func TestALatchCanBeSetAgain(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		l := a.Latch("l")
		set := func(n int64, want bool) { equal(t, errtest.Must(l.Set(ctx, n))(t), want, "set to %d", n) }
		failIf(t, errOf(l.CountDown(ctx)) == nil, "counted down a latch that is not set")
		set(2, true)
		set(3, false)
		waits := does(func() error { return l.Wait(ctx) })
		ok(t, l.Reset(ctx))
		ok(t, l.Reset(ctx))
		_, isSet, err := l.Count(ctx)
		failIf(t, isSet || err != nil, "set: %v, %v", isSet, err)
		set(1, true)
		synctest.Wait()
		fatalIf(t, len(waits) > 0, "open")
		for range 2 { // the second is of an open latch
			left, err := l.CountDown(ctx)
			ok(t, err)
			failIf(t, left != 0, "%d left", left)
		}
		ok(t, <-waits)
		wantErr(t, errOf(l.Set(ctx, 0)), interlock.ErrInvalid)
	}))
}

// Promise: a count that is no number is an error of a short line, however long it is.
func TestACountThatIsNoNumberIsAShortError(t *testing.T) {
	simulated(t, func(t *testing.T) {
		d := memlock.New()
		c := client(t, d)
		_, err := d.Swap(ctx, driver.Swap{ID: strings.Repeat("0", 32), Name: "l/latch", Value: bytes.Repeat([]byte("x"), driver.MaxCell)})
		ok(t, err)
		_, _, err = c.Latch("l").Count(ctx)
		failIf(t, err == nil || len(err.Error()) > 100 || !strings.Contains(err.Error(), "xxx…"), "%.200v", err)
	})
}

// What is done already is read, and not written again: no version of it comes that tells others of a change.
func TestWhatIsDoneAlreadyIsNotWritten(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		barrier, latch := a.Barrier("b"), a.Latch("l")
		ok(t, barrier.Remove(ctx))
		ok(t, latch.Reset(ctx))
		ok(t, barrier.Set(ctx))
		_, err := latch.Set(ctx, 1)
		ok(t, err)
		before := a.Admin().Exchanges()
		ok(t, barrier.Set(ctx))
		_, err = latch.Set(ctx, 2)
		ok(t, err)
		costs(t, a, before, 2)
		ok(t, barrier.Remove(ctx))
		ok(t, latch.Reset(ctx))
		before = a.Admin().Exchanges()
		ok(t, barrier.Remove(ctx))
		ok(t, latch.Reset(ctx))
		costs(t, a, before, 2)
	}))
}
