package interlock_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

type settings struct {
	Limit int
	Hosts []string
}

func TestAValueIsChangedByVersion(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		v, w := interlock.NewValue[settings](a.Client, "v"), interlock.NewValue[settings](b.Client, "v")
		got, version, err := v.Get(ctx)
		ok(t, err)
		if version != 0 || got.Limit != 0 {
			t.Errorf("%+v, version %d", got, version)
		}
		first, err := v.Set(ctx, settings{1, []string{"x"}}, 0)
		ok(t, err)
		_, err = w.Set(ctx, settings{2, nil}, 0)
		wantErr(t, err, interlock.ErrConflict)
		second, err := w.Set(ctx, settings{2, nil}, first)
		ok(t, err)
		wantErr(t, v.Delete(ctx, first), interlock.ErrConflict)
		ok(t, v.Delete(ctx, second))
		got, version, err = w.Get(ctx)
		ok(t, err)
		if version <= second || got.Limit != 0 {
			t.Errorf("%+v, version %d", got, version)
		}
		_, err = w.Set(ctx, settings{3, nil}, 0) // versions never come back
		wantErr(t, err, interlock.ErrConflict)
		_, err = w.Set(ctx, settings{3, nil}, version)
		ok(t, err)
	})
}

func TestUpdatesAreNotLost(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		var wg sync.WaitGroup
		for range 4 {
			m := join(t, w)
			for range 5 {
				wg.Go(func() {
					for range 10 {
						if _, err := interlock.NewValue[int](m.Client, "v").Update(ctx, func(n int) (int, error) { return n + 1, nil }); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		n, _, err := interlock.NewValue[int](join(t, w).Client, "v").Get(ctx)
		ok(t, err)
		if n != 200 {
			t.Errorf("%d updates, want 200", n)
		}
	})
}

// Update gives up when others are faster again and again.
func TestUpdateIsBounded(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
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
		_, err = v.Update(ctx, func(n int) (int, error) { return 0, own })
		wantErr(t, err, own)
	})
}

// Watch may skip states, but never misses the last; a deletion is one.
func TestWatchNeverMissesTheLastState(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		v := interlock.NewValue[int](a.Client, "v")
		watch, stop := context.WithCancel(ctx)
		last := make(chan int, 1)
		ends := make(chan struct{})
		go func() {
			defer close(ends)
			for n, err := range interlock.NewValue[int](b.Client, "v").Watch(watch) {
				if err != nil {
					t.Error(err)
				}
				select {
				case <-last:
				default:
				}
				last <- n
			}
		}()
		var version uint64
		for i := range 50 {
			var err error
			version, err = v.Set(ctx, i+1, version)
			ok(t, err)
			if i%7 == 0 {
				b.faults().After("Watch", 1).Fail() // it starts again by itself
			}
			if i%5 == 4 {
				time.Sleep(time.Second)
				if n := <-last; n != i+1 {
					t.Fatalf("last state %d, want %d", n, i+1)
				}
			}
		}
		ok(t, v.Delete(ctx, version))
		time.Sleep(time.Second)
		if n := <-last; n != 0 {
			t.Errorf("last state %d after the deletion", n)
		}
		stop()
		<-ends
	})
}

func TestBytesAreStoredAsTheyAre(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		raw := interlock.NewValue[[]byte](a.Client, "raw")
		version, err := raw.Set(ctx, []byte{0xff, 0}, 0)
		ok(t, err)
		got, _, err := raw.Get(ctx)
		ok(t, err)
		if !bytes.Equal(got, []byte{0xff, 0}) {
			t.Errorf("%x", got)
		}
		_, _, err = interlock.NewValue[int](a.Client, "raw").Get(ctx)
		if err == nil {
			t.Error("no error for a value of another type")
		}
		_, err = raw.Set(ctx, make([]byte, interlock.MaxValue+1), version)
		if err == nil {
			t.Error("too large a value was stored")
		}
		_, err = raw.Set(ctx, make([]byte, interlock.MaxValue), version)
		ok(t, err)
		_, err = interlock.NewValue[func()](a.Client, "f").Set(ctx, nil, 0)
		if err == nil {
			t.Error("a function was stored")
		}
	})
}

// Primitives of one name do not disturb each other.
func TestNamesOfPrimitivesAreApart(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
		_, err := interlock.NewValue[int](a.Client, "x").Set(ctx, 7, 0)
		ok(t, err)
		set, err := a.Latch("x").Set(ctx, 1)
		ok(t, err)
		ok(t, a.Barrier("x").Set(ctx))
		lease := acquire(t, a.Mutex("x"))
		below := acquire(t, a.Mutex("x/y"))
		if !set {
			t.Error("the latch was set")
		}
		ok(t, a.Barrier("x").Remove(ctx))
		if left, set, err := a.Latch("x").Count(ctx); left != 1 || !set || err != nil {
			t.Error(left, set, err)
		}
		synctest.Wait()
		ok(t, below.Release())
		ok(t, lease.Release())
	})
}

// A change whose answer does not come is repeated as long as the backend is sure to recognise
// it, and no longer: it could be made twice.
func TestAChangeIsNotRepeatedForLongerThanItIsRecognised(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld())
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
	})
}
