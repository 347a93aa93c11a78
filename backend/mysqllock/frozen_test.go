package mysqllock_test

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: Follow and Watch over a connection that leads nowhere any more, but has no
// end, go on over another one.
func TestWaitingOverAFrozenConnection(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	p := mysqltest.NewProxy(t, s)
	d := opened(t, p.URL())
	follow := func() error {
		_, err := d.Follow(t.Context(), "q", "other")
		return err
	}
	watch := func() error {
		_, err := d.Watch(t.Context(), "a/value", 1)
		return err
	}
	if err := errors.Join(follow(), watch()); err != nil { // there are connections
		t.Fatal(err)
	}
	p.Freeze()
	done := make(chan error)
	go func() { done <- follow() }()
	go func() { done <- watch() }()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
}
