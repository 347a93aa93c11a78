package interlock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
)

// A robust lock tells the next holder whether the last one left its work half
// done.
func TestInherited(t *testing.T) {
	robust := interlock.Robust()
	for name, c := range map[string]struct {
		end       func(a member)
		inherited bool
	}{
		"released": {func(a member) {
			_ = a.Mutex("m", robust).Do(ctx, func(context.Context) error { time.Sleep(time.Nanosecond); return nil })
		}, false},
		"an error": {func(a member) {
			_ = a.Mutex("m", robust).Do(ctx, func(context.Context) error { time.Sleep(time.Nanosecond); return context.Canceled })
		}, false},
		"a panic": {func(a member) {
			defer func() { _ = recover() }()
			_ = a.Mutex("m", robust).Do(ctx, func(context.Context) error { time.Sleep(time.Nanosecond); panic("half done") })
		}, true},
		"a panic in a nested Do": {func(a member) {
			l := a.Mutex("m", robust, interlock.Reentrant())
			_ = l.Do(ctx, func(held context.Context) error {
				defer func() { _ = recover() }()
				return l.Do(held, func(context.Context) error { time.Sleep(time.Nanosecond); panic("half done") })
			})
		}, true},
		"the goroutine ends": {func(a member) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Mutex("m", robust).Do(ctx, func(context.Context) error { time.Sleep(time.Nanosecond); runtime.Goexit(); return nil })
			}()
			<-done
		}, true},
		"death": {func(a member) {
			_, _ = a.Mutex("m", robust).Acquire(ctx)
			time.Sleep(time.Nanosecond)
			a.faults().Cut()
		}, true},
		"the session's end": {func(a member) {
			_, _ = a.Mutex("m", robust).Acquire(ctx)
			time.Sleep(time.Nanosecond)
			a.faults().Expire()
		}, true},
		"a writer's panic": {func(a member) {
			defer func() { _ = recover() }()
			_ = a.Mutex("m", robust, interlock.StrictOrder()).Do(ctx, func(context.Context) error { time.Sleep(time.Nanosecond); panic("half done") })
		}, true},
	} {
		for _, own := range []bool{true, false} {
			if own && name == "death" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				simulated(t, func(t *testing.T) {
					a, b := pair(t)
					next := b
					if own { // handed over inside the process, or not
						next = a
					}
					done := make(chan struct{})
					go func() { c.end(a); close(done) }()
					synctest.Wait()
					waits := async(ctx, next.Mutex("m", robust))
					r := <-waits
					<-done
					ok(t, r.err)
					if r.lease.Inherited() != c.inherited {
						t.Errorf("inherited %v", r.lease.Inherited())
					}
					ok(t, r.lease.Release())
					after := acquire(t, next.Mutex("m", robust))
					if after.Inherited() {
						t.Error("inherited after a clean release")
					}
					ok(t, after.Release())
				})
			})
		}
	}
}
