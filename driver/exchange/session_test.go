package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Promise: Close names waiters first, so that none of them is granted what a holder leaves, and no
// ticket with a fixed end, also if no call has said yet that it is held.
func TestCloseNamesWhatLeavesWaitersFirst(t *testing.T) {
	next := held
	var named []string
	s := opened(t, Script{
		Join: func(context.Context, exchange.Join) (exchange.Status, error) { return next, nil },
		Keep: func(context.Context, exchange.Session, exchange.Ref, time.Duration) error { return nil },
		End: func(_ context.Context, _ exchange.Session, tickets []exchange.Leave) ([]string, error) {
			for _, l := range tickets {
				named = append(named, l.ID)
			}
			return nil, nil
		},
	})
	holder, kept := joined(t, s), joined(t, s)
	next = waits
	waiter, granted := joined(t, s), joined(t, s)
	for _, k := range []driver.Ticket{kept, granted} {
		errtest.None(t, s.Keep(t.Context(), k, time.Minute))
	}
	errtest.None(t, s.Close(t.Context()))
	if want := []string{waiter.ID, holder.ID}; !slices.Equal(named, want) {
		t.Errorf("Close names %v, not the waiter and the holder, %v", named, want)
	}
}

// Promise: a ticket that was given up, or found to be gone, while its Join or a renewal
// may still be committed is named by later heartbeats, so that it does not last.
func TestOrphansAreStrays(t *testing.T) {
	for name, join := range map[string]func(context.Context, exchange.Join) (exchange.Status, error){"found to be gone": says(waits), "given up": noAnswer} {
		t.Run(name, func(t *testing.T) {
			var strays []exchange.Ref
			s := opened(t, Script{
				Join:  join,
				Leave: func(context.Context, exchange.Leave) (bool, error) { return false, driver.ErrGone },
				Renew: renews(always(exchange.Status{})),
				Detach: func(_ context.Context, _ exchange.Session, tickets []exchange.Ref) error {
					strays = tickets
					return nil
				},
			})
			r := request()
			k, err := s.Join(t.Context(), r)
			if err == nil {
				errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
			} else if err := s.Leave(t.Context(), ticketOf(r), true); err != driver.ErrGone {
				t.Fatal(err)
			}
			for range 2 {
				got, err := s.Renew(t.Context(), nil)
				if err != nil || len(got) > 0 || !slices.Equal(strays, []exchange.Ref{{Queue: r.Queue, ID: r.ID}}) {
					t.Errorf("a heartbeat names %v and answers %v, %v", strays, got, err)
				}
			}
		})
	}
}
