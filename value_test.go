package interlock_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
		got, err := v.Get(ctx)
		ok(t, err)
		if got.Version != 0 || got.Exists || got.Value.Limit != 0 {
			t.Errorf("%+v", got)
		}
		first, err := v.Set(ctx, settings{1, []string{"x"}}, 0)
		ok(t, err)
		_, err = w.Set(ctx, settings{2, nil}, 0)
		wantErr(t, err, interlock.ErrConflict)
		second, err := w.Set(ctx, settings{2, nil}, first)
		ok(t, err)
		wantErr(t, v.Delete(ctx, first), interlock.ErrConflict)
		ok(t, v.Delete(ctx, second))
		got, err = w.Get(ctx)
		ok(t, err)
		if got.Version <= second || got.Exists || got.Value.Limit != 0 {
			t.Errorf("%+v", got)
		}
		third, err := w.Set(ctx, settings{}, got.Version)
		ok(t, err)
		if got, err = v.Get(ctx); err != nil || !got.Exists || got.Version != third {
			t.Errorf("a zero that was set: %+v, %v", got, err)
		}
	})
}

// Version 0 creates what does not exist, once, also after a deletion; versions never come back.
func TestVersionZeroCreates(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		last := uint64(0)
		for range 5 {
			var created atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				v := interlock.NewValue[int](join(t, w).Client, "v")
				wg.Go(func() {
					switch version, err := v.Set(ctx, 1, 0); {
					case err == nil:
						created.Add(1)
						if version <= last {
							t.Errorf("version %d after %d", version, last)
						}
					case !errors.Is(err, interlock.ErrConflict):
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := created.Load(); n != 1 {
				t.Errorf("%d have created it", n)
			}
			v := interlock.NewValue[int](join(t, w).Client, "v")
			got, err := v.Get(ctx)
			ok(t, err)
			ok(t, v.Delete(ctx, got.Version))
			last = got.Version
		}
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
		got, err := interlock.NewValue[int](join(t, w).Client, "v").Get(ctx)
		ok(t, err)
		if got.Value != 200 {
			t.Errorf("%d updates, want 200", got.Value)
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
		last := make(chan interlock.Snapshot[int], 1)
		ends := make(chan struct{})
		go func() {
			defer close(ends)
			for got, err := range interlock.NewValue[int](b.Client, "v").Watch(watch) {
				if err != nil {
					t.Error(err)
				}
				select {
				case <-last:
				default:
				}
				last <- got
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
				if got := <-last; got.Value != i+1 || got.Version != version || !got.Exists {
					t.Fatalf("last state %+v, want %d with version %d", got, i+1, version)
				}
			}
		}
		ok(t, v.Delete(ctx, version))
		time.Sleep(time.Second)
		if got := <-last; got.Value != 0 || got.Exists || got.Version <= version {
			t.Errorf("last state %+v after the deletion", got)
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
		got, err := raw.Get(ctx)
		ok(t, err)
		if !bytes.Equal(got.Value, []byte{0xff, 0}) {
			t.Errorf("%x", got.Value)
		}
		_, err = interlock.NewValue[int](a.Client, "raw").Get(ctx)
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
