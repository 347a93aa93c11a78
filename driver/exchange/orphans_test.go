package exchange_test

import (
	"context"
	"slices"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
)

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
