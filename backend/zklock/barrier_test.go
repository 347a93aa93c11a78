package zklock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zkpeer"
)

// Promise: with barrier=curator, programs in Go and in Java wait for one barrier, which
// either of them closes and opens.
func TestBarrierOfCurator(t *testing.T) {
	t.Parallel()
	s := lent(t)
	java := zkpeer.Curator(t, s.Addr)
	ctx := limited(t)
	c := program(t, s.Addr, "?barrier=curator")
	prefixed := errtest.Must(interlock.Open(ctx, "zk://"+s.Addr+"/?barrier=curator", interlock.Prefix("a/")))(t)
	defer prefixed.Close()
	ours, alike, theirs := c.Barrier("a/b"), prefixed.Barrier("b"), java.Barrier("/a/b")
	waits := java.Session("waits").Barrier("/a/b")
	open := func(want bool) {
		t.Helper()
		set := errtest.Must(ours.IsSet(ctx))(t)
		there := errtest.Must(theirs.TryWait(ctx, 20*time.Millisecond))(t)
		if set == want || there != want {
			t.Fatalf("open is %v here and %v there, not %v", !set, there, want)
		}
	}
	open(true)
	for range 3 {
		for _, set := range []func() error{theirs.Set, func() error { return ours.Set(ctx) }} {
			for _, remove := range []func() error{theirs.Remove, func() error { return alike.Remove(ctx) }} {
				noError(t, set())
				noError(t, theirs.Set()) // one that is closed stays so
				noError(t, alike.Set(ctx))
				open(false)
				short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				if err := alike.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Wait: %v", err)
				}
				cancel()
				done := make(chan error, 2)
				go func() { done <- ours.Wait(ctx) }()
				go func() { done <- waits.Wait(ctx) }()
				noError(t, remove())
				noError(t, <-done)
				noError(t, <-done)
				open(true)
				noError(t, ours.Remove(ctx)) // so does one that is open
			}
		}
	}
}

// Promise: a node that something else has made is not taken for a barrier.
func TestBarrierOfCuratorIsNothingElse(t *testing.T) {
	t.Parallel()
	s := lent(t)
	c, ctx := program(t, s.Addr, "?barrier=curator"), limited(t)
	lease := errtest.Must(c.Mutex("queue").Acquire(ctx))(t)
	if err := c.Barrier("queue").Wait(ctx); err == nil {
		t.Error("a queue is a barrier")
	}
	if err := c.Barrier("queue").Remove(ctx); err == nil {
		t.Error("a queue is removed as a barrier")
	}
	if err := lease.Err(); err != nil {
		t.Error(err)
	}
	noError(t, lease.Release())
	noError(t, c.Barrier("above/below").Set(ctx))
	if err := c.Barrier("above").Set(ctx); err == nil {
		t.Error("what is above a barrier is one")
	}
	noError(t, c.Barrier("above/below").Remove(ctx))
}
