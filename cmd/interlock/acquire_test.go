//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a signal that ends a command which waits leaves nothing in line.
func TestASignalThatEndsAWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	for signal, command := range map[syscall.Signal][]string{
		syscall.SIGINT:  {"acquire", "--hold", "1h", "a"},
		syscall.SIGTERM: {"run", "a", "--", "true"},
	} {
		url := testURL(t, "")
		if out, err := cli(t, url, "acquire", "--hold", "1h", "a").Output(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		waiter := start(t, url, command...)
		waits(t, url, "a")
		_ = waiter.Process.Signal(signal)
		waiter.ends(exitSignal+int(signal), soon)
		out, err := cli(t, url, "show", "--json", "a").Output()
		if err != nil || strings.Count(string(out), `"id"`) != 1 {
			t.Errorf("%v: not the holder alone is left: %s", err, out)
		}
	}
}

// fullPipe is a pipe that nobody reads, and into which nothing fits any more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	errtest.None(t, unix.Mkfifo(path, 0o600))
	pipe := errtest.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	t.Cleanup(func() { pipe.Close() })
	size := errtest.Must(unix.FcntlInt(pipe.Fd(), unix.F_GETPIPE_SZ, 0))(t)
	errtest.Must(pipe.Write(make([]byte, size)))(t)
	return pipe
}

// Promise: an acquire whose line nobody reads gives the lock back when a signal comes.
func TestASignalWhileAcquireWritesGivesTheLockBack(t *testing.T) {
	t.Parallel()
	url := testURL(t, "")
	s := &started{Cmd: cli(t, url, "acquire", "--hold", "1h", "a"), t: t}
	s.Stdout = fullPipe(t)
	s.begin()
	s.until("it holds the lock", func() bool { return len(holders(t, url, "a")) == 1 })
	_ = s.Process.Signal(syscall.SIGINT)
	s.ends(exitSignal+int(syscall.SIGINT), soon)
	if left := holders(t, url, "a"); len(left) > 0 {
		t.Errorf("%v holds the lock still", left)
	}
}

// Promise: an acquire that was stopped until its time was over says that the lock is gone.
func TestAnAcquireThatComesTooLateSaysSo(t *testing.T) {
	t.Parallel()
	url := testURL(t, "")
	s := &started{Cmd: cli(t, url, "acquire", "--hold", "1s", "a"), t: t}
	s.Stdout = fullPipe(t)
	s.begin()
	s.ends(exitLost, soon)
}

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
