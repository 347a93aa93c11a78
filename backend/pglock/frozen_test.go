package pglock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: Follow and Watch over a connection that leads nowhere any more, but has no
// end, go on over another one.
func TestWaitingOverAFrozenConnection(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	p := pgtest.NewProxy(t, s.Addr)
	d := opened(t, strings.Replace(s.URL(), s.Addr, p.Addr, 1))
	follow := func() error {
		_, err := d.Follow(t.Context(), "q", "other")
		return err
	}
	watch := func() error {
		_, err := d.Watch(t.Context(), "a/value", 1)
		return err
	}
	noError(t, errors.Join(follow(), watch())) // there are connections
	p.Freeze()
	done := make(chan error)
	go func() { done <- follow() }()
	go func() { done <- watch() }()
	noError(t, errors.Join(<-done, <-done))
	p.Cut() // its client waits for the end of connections that it closes
}
