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
	joined := func() (Standing, error) { return Standing{State: Waits}, nil }
	lost := func() (Standing, error) { return Standing{}, context.DeadlineExceeded }
	for name, join := range map[string]func() (Standing, error){"found to be gone": joined, "given up": lost} {
		t.Run(name, func(t *testing.T) {
			var stranded []Ref
			s := stage(t, staged{
				join:   join,
				leave:  func(Leave) (Left, error) { return Left{}, driver.ErrGone },
				renew:  func(look []Ref) (Renewed, error) { return Renewed{Standings: make([]Standing, len(look))}, nil },
				strand: func(_ context.Context, strays, _ []Ref) error { stranded = strays; return nil },
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
