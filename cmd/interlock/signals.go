package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// sameSignal is the time in which a signal that comes again is still the same request.
const sameSignal = 500 * time.Millisecond

// untilSignal returns a context that INT, TERM or HUP ends, with that signal as
// the cause. Signals that the caller ignores, as under nohup, stay ignored. The
// function gives the signals up and ends the context, with the cause of a signal that
// came before. A second signal ends the process at once, except the same one within half a
// second: timeout(1), for one, signals its child, and then the group that this is in.
func untilSignal(ctx context.Context) (context.Context, func()) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 8) // a second one may come before the first is looked at
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var first os.Signal
		var at time.Time
		for {
			select {
			case s := <-got:
				switch {
				case first == nil:
					first, at = s, time.Now()
					cancel(signalled{s.(syscall.Signal)})
				case s != first || time.Since(at) > sameSignal:
					os.Exit(exitSignal + int(s.(syscall.Signal)))
				}
			case <-over:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(got) // no more will come
		close(over)
		<-ended
		select {
		case s := <-got: // the goroutine may have ended without it
			cancel(signalled{s.(syscall.Signal)})
		default:
			cancel(nil)
		}
	})
}

// ended is the signal that has ended a context of untilSignal, nil if there was none.
func ended(ctx context.Context) error {
	var s signalled
	if errors.As(context.Cause(ctx), &s) {
		return s
	}
	return nil
}
