//go:build linux

package main

import (
	"context"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a signal that comes when the lock has been acquired already, before the guard
// takes over, is not lost: the job is not begun.
func TestASignalThatComesLastIsNotLost(t *testing.T) {
	for range 100 {
		ctx, stop := untilSignal(context.Background())
		// One that a thread sends to itself has come when the call returns.
		runtime.LockOSThread()
		err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGHUP)
		runtime.UnlockOSThread()
		errtest.None(t, err)
		stop()
		stop()
		if got := ended(ctx); got != (signalled{syscall.SIGHUP}) {
			t.Fatalf("the context has ended with %v", context.Cause(ctx))
		}
	}
	ctx, stop := untilSignal(context.Background())
	stop()
	if err := ended(ctx); err != nil || ctx.Err() == nil {
		t.Errorf("without a signal: %v, %v", err, ctx.Err())
	}
}
