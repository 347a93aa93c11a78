package exchange

import (
	"context"
	"slices"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a ticket that was given up, or found to be gone, while its Join or a renewal
// may still be committed is named by later heartbeats, so that it does not last.
func TestOrphansAreStrays(t *testing.T) {
	joined := func() (Status, error) { return Status{State: Waiting}, nil }
	lost := func() (Status, error) { return Status{}, context.DeadlineExceeded }
	for name, join := range map[string]func() (Status, error){"found to be gone": joined, "given up": lost} {
		t.Run(name, func(t *testing.T) {
			var stranded []Ref
			s := stage(t, staged{
				join:   join,
				leave:  func(Leave) (bool, error) { return false, driver.ErrGone },
				renew:  func(look []Ref) (Renewal, error) { return Renewal{Tickets: make([]Status, len(look))}, nil },
				detach: func(_ context.Context, strays []Ref) error { stranded = strays; return nil },
			})
			k, err := s.Join(t.Context(), mutex)
			if err == nil {
				if _, err := s.Renew(t.Context(), []driver.Ticket{k}); err != nil {
					t.Fatal(err)
				}
			} else if err := s.Leave(t.Context(), driver.Ticket{ID: mutex.ID, Queue: mutex.Queue}, true); err != driver.ErrGone {
				t.Fatal(err)
			}
			for range 2 {
				got, err := s.Renew(t.Context(), nil)
				if err != nil || len(got) > 0 || !slices.Equal(stranded, []Ref{{mutex.Queue, mutex.ID}}) {
					t.Errorf("a heartbeat names %v and answers %v, %v", stranded, got, err)
				}
			}
		})
	}
}
