package interlock_test

import (
	"bytes"
	"context"
	"errors"
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
			if _, err := other.Update(ctx, func(n int) (int, error) { return n + 1, nil }); err != nil {
				t.Error(err)
			}
			return n, nil
		})
		wantErr(t, err, interlock.ErrConflict)
		if tries != interlock.MaxUpdates {
			t.Errorf("%d tries", tries)
		}
		own := errors.New("own")
		wantErr(t, errOf(v.Update(ctx, func(n int) (int, error) { return 0, own })), own)
	}))
}

func TestBytesAreStoredAsTheyAre(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		raw := interlock.NewValue[[]byte](a.Client, "raw")
		version := errtest.Must(raw.Set(ctx, []byte{0xff, 0}, 0))(t)
		got := errtest.Must(raw.Get(ctx))(t)
		if !bytes.Equal(got.Value, []byte{0xff, 0}) {
			t.Errorf("%x", got.Value)
		}
		_, err := interlock.NewValue[int](a.Client, "raw").Get(ctx)
		if err == nil {
			t.Error("no error for a value of another type")
		}
		wantErr(t, errOf(raw.Set(ctx, make([]byte, interlock.MaxValue+1), version)), interlock.ErrInvalid)
		_, err = raw.Update(ctx, func([]byte) ([]byte, error) { return make([]byte, interlock.MaxValue+1), nil })
		wantErr(t, err, interlock.ErrInvalid)
		version = errtest.Must(raw.Set(ctx, make([]byte, interlock.MaxValue), version))(t)
		wantErr(t, errOf(raw.Set(ctx, nil, 0)), interlock.ErrConflict)
		ok(t, raw.Delete(ctx, version))
		errtest.Must(raw.Set(ctx, nil, 0))(t)
		_, err = interlock.NewValue[func()](a.Client, "f").Set(ctx, nil, 0)
		if err == nil {
			t.Error("a function was stored")
		}
	}))
}

// Primitives of one name do not disturb each other.
func TestNamesOfPrimitivesAreApart(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		errtest.Must(interlock.NewValue[int](a.Client, "x").Set(ctx, 7, 0))(t)
		set := errtest.Must(a.Latch("x").Set(ctx, 1))(t)
		ok(t, a.Barrier("x").Set(ctx))
		ok(t, a.Barrier("x").Set(ctx))
		lease := acquire(t, a.Mutex("x"))
		below := acquire(t, a.Mutex("x/y"))
		if !set {
			t.Error("the latch was set")
		}
		ok(t, a.Barrier("x").Remove(ctx))
		ok(t, a.Barrier("x").Remove(ctx))
		if left, set, err := a.Latch("x").Count(ctx); left != 1 || !set || err != nil {
			t.Error(left, set, err)
		}
		synctest.Wait()
		ok(t, below.Release())
		ok(t, lease.Release())
	}))
}

// A change whose answer does not come is repeated as long as the backend is sure to recognise
// it, and no longer: it could be made twice.
func TestAChangeIsNotRepeatedForLongerThanItIsRecognised(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		a.faults().Before("Swap", 0).Fail()
		bounded, cancel := context.WithTimeout(ctx, 3*driver.SwapMemory)
		defer cancel()
		began := time.Now()
		_, err := interlock.NewValue[int](a.Client, "v").Set(bounded, 1, 0)
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		wantErr(t, err, memlock.ErrFailed)
		if d := time.Since(began); d >= driver.SwapMemory {
			t.Errorf("repeated for %v", d)
		}
	}))
}
