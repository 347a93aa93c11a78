package zkpeer_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns what must not fail.
func get[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// within is a context that kills the peer of a test that hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// later does it in a goroutine.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("it does not come true: %s", what)
		}
	}
}

// lined waits until so many hold or wait.
func lined(t *testing.T, l *zkpeer.Lock, n int) []string {
	t.Helper()
	var all []string
	eventually(t, "all are in line", func() bool {
		all = get[[]string](t)(l.Participants())
		return len(all) == n
	})
	return all
}

const moment = 20 * time.Millisecond

func free(t *testing.T, ctx context.Context, l *zkpeer.Lock) {
	t.Helper()
	if !get[bool](t)(l.TryAcquire(ctx, 20*time.Second)) {
		t.Fatal("it is taken")
	}
	must(t, l.Release())
}

func taken(t *testing.T, ctx context.Context, l *zkpeer.Lock) {
	t.Helper()
	for _, wait := range []time.Duration{0, moment} {
		if get[bool](t)(l.TryAcquire(ctx, wait)) {
			t.Fatal("two hold it")
		}
	}
}
