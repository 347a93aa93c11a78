package exchange_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
)

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
