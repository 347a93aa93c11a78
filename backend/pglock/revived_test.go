package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: after a crash that has emptied the unlogged tables, a client that asks about
// its ticket before anybody has begun a session is not told that it is gone: the lease of
// a fixed time stands, with its token, and nobody else gets it.
func TestALookBeforeTheFirstSessionAfterACrash(t *testing.T) {
	s := pgtest.Start(t, pgtest.Durable())
	open := func() driver.Driver {
		d, err := openURL(t.Context(), s.URL())
		noError(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	a, b := open(), open()
	holder, r := session(t, a), request("fixed", 1)
	r.Hold = time.Hour
	held := join(t, holder, r)
	r.Retry = true
	s.Kill()
	s.Restart()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	looks := map[string]func() error{
		"Join, repeated": func() error { _, err := holder.Join(ctx, r); return err },
		"Await": func() error {
			ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // it outlasts other errors
			defer cancel()
			_, err := holder.Await(ctx, held)
			return err
		},
	}
	for what, look := range looks {
		for {
			err := look()
			if err == nil || errors.Is(err, driver.ErrGone) {
				t.Fatalf("%s of a lease of a fixed time, right after a crash: %v", what, err)
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: the server does not say that a session has to begin first: %v", what, err)
			}
			if strings.Contains(err.Error(), "a new session has to begin first") || what == "Await" && errors.Is(err, context.DeadlineExceeded) {
				break
			}
		}
	}

	other := session(t, b)
	got, err := holder.Join(ctx, r)
	for err != nil && !driver.IsPermanent(err) && ctx.Err() == nil { // of a connection from before the crash
		got, err = holder.Join(ctx, r)
	}
	if err != nil || !got.Held || got.Token != held.Token {
		t.Errorf("the lease with the token %d is %+v, %v", held.Token, got, err)
	}
	late := request("fixed", 1)
	late.NoWait = true
	if got, err := other.Join(ctx, late); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("beside the lease another gets %+v, %v", got, err)
	}
}
