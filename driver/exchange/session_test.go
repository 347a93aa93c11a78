package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a session has no part in the tickets of another one of the same client, be it that it knows
// their IDs.
func TestATicketIsOfOneSession(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		a := opened(t, Script{})
		for _, of := range []string{"a holder", "a waiter"} {
			b := errtest.Must(exchange.DriverOf(a).Open(t.Context(), driver.SessionOptions{TTL: time.Minute}))(t)
			r := request()
			k, err := a.Join(t.Context(), r)
			if err != nil || k.Held != (of == "a holder") {
				t.Fatal(k, err)
			}
			for _, r.Retry = range []bool{false, true} {
				if got, err := b.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
					t.Errorf("%s: Join of another session: %+v, %v", of, got, err)
				}
			}
			if got, err := b.Await(within(t), k); !errors.Is(err, driver.ErrGone) {
				t.Errorf("%s: Await of another session: %+v, %v", of, got, err)
			}
			if got, err := b.Renew(t.Context(), []driver.Ticket{k}); err != nil || len(got) != 1 || got[0].State != driver.Gone {
				t.Errorf("%s: Renew of another session: %+v, %v", of, got, err)
			}
			for what, err := range map[string]error{
				"Shrink": b.Shrink(t.Context(), k, 1),
				"Keep":   b.Keep(t.Context(), k, time.Hour),
				"Leave":  b.Leave(t.Context(), k, true),
			} {
				if !errors.Is(err, driver.ErrGone) {
					t.Errorf("%s: %s of another session: %v", of, what, err)
				}
			}
			errtest.None(t, b.Close(t.Context()))
			got, err := a.Renew(t.Context(), []driver.Ticket{k})
			if err != nil || len(got) == 0 || got[0].ID != k.ID || got[0].State != driver.Kept {
				t.Errorf("%s: its own session says %+v, %v", of, got, err)
			}
			if again, err := a.Join(t.Context(), r); err != nil || again.Held != k.Held || again.Token != k.Token {
				t.Errorf("%s: its own session has %+v, %v", of, again, err)
			}
		}
	})
}

// Promise: whoever is told that a session is over is told what has ended it, be it not by the call that found out.
func TestEveryCallSaysWhatHasEndedTheSession(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		removed := errors.New("the file was removed")
		s := opened(t, Script{Renew: func(context.Context, exchange.Session, []exchange.Ref, int) (exchange.Renewal, error) {
			return exchange.Renewal{}, fmt.Errorf("%w: %w", driver.ErrSession, removed)
		}})
		waits := make(chan error, 1)
		go func() { _, err := s.Signals(t.Context()); waits <- err }()
		_, renews := s.Renew(t.Context(), nil)
		_, joins := s.Join(t.Context(), request())
		for what, err := range map[string]error{"Signals": <-waits, "Renew": renews, "Join": joins} {
			if !errors.Is(err, driver.ErrSession) || !errors.Is(err, removed) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
