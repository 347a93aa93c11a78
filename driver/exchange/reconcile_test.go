package exchange_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: when a replica has taken over, which may not have received that tickets were left,
// those become strays that nobody here knows, and no others; until it has said which these
// are, it is asked by every heartbeat, and no more after that.
func TestATicketWhoseLeaveAFailoverHasLostIsAStray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history, asked := "first", 0
		var fails error
		var strays []exchange.Ref
		r, lost := request(), exchange.Ref{Queue: "q", ID: exchange.NewID()}
		s := opened(t, Script{
			Join: says(held),
			Renew: func(ctx context.Context, session exchange.Session, refs []exchange.Ref, _ int) (exchange.Renewal, error) {
				got, err := renews(always(held))(ctx, session, refs, 0)
				got.History = history
				return got, err
			},
			Detach: func(_ context.Context, _ exchange.Session, tickets []exchange.Ref) error {
				strays = tickets
				return nil
			},
			Tickets: func(context.Context, exchange.Session) ([]exchange.Ref, error) {
				asked++
				return []exchange.Ref{{Queue: r.Queue, ID: r.ID}, lost}, fails
			},
		})
		k := errtest.Must(s.Join(t.Context(), r))(t)
		for i, step := range []struct {
			history string
			fails   error
			strays  bool // this heartbeat finds it
			asked   int
		}{
			{history: "first"},
			{}, // the server does not say
			{history: "second", fails: errors.New("no connection"), asked: 1},
			{history: "second", asked: 2},
			{history: "second", asked: 2, strays: true},
		} {
			strays, history, fails = nil, step.history, step.fails
			got := errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
			synctest.Wait()
			isStray := func(r driver.Renewed) bool { return r.State == driver.Stray }
			if one := slices.IndexFunc(got, isStray); asked != step.asked || (one >= 0) != step.strays || step.strays && got[one].ID != lost.ID {
				t.Errorf("heartbeat %d: asked %d times, and it says %+v", i+1, asked, got)
			}
			if step.strays && !slices.Equal(strays, []exchange.Ref{lost}) {
				t.Errorf("%v have an end of their own", strays)
			}
		}
	})
}

// Promise: when a replica has taken over that does not know of many Leaves, each heartbeat names a bounded
// number of their tickets, and one after the other all of them get an end.
func TestManyTicketsWhoseLeavesAFailoverHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lost = 2*exchange.PerLook + 1
		var mu sync.Mutex
		ends := map[exchange.Ref]time.Time{} // of those that stand; zero: it has none of its own
		for range lost {
			ends[exchange.Ref{Queue: "q", ID: exchange.NewID()}] = time.Time{}
		}
		history := "first"
		s := opened(t, Script{
			Renew: func(_ context.Context, _ exchange.Session, refs []exchange.Ref, _ int) (exchange.Renewal, error) {
				return exchange.Renewal{Tickets: make([]exchange.Status, len(refs)), History: history}, nil
			},
			Detach: func(_ context.Context, _ exchange.Session, tickets []exchange.Ref) error {
				if len(tickets) > exchange.PerLook {
					t.Errorf("a heartbeat names %d tickets", len(tickets))
				}
				mu.Lock()
				defer mu.Unlock()
				for _, one := range tickets {
					if end, stands := ends[one]; stands && end.IsZero() {
						ends[one] = time.Now().Add(time.Minute)
					}
				}
				return nil
			},
			Tickets: func(context.Context, exchange.Session) ([]exchange.Ref, error) {
				mu.Lock()
				defer mu.Unlock()
				return slices.Collect(maps.Keys(ends)), nil
			},
		})
		stand := func() int {
			mu.Lock()
			defer mu.Unlock()
			maps.DeleteFunc(ends, func(_ exchange.Ref, end time.Time) bool { return !end.IsZero() && end.Before(time.Now()) })
			return len(ends)
		}
		for beats := 0; stand() > 0; beats++ {
			if beats == 100 {
				t.Fatalf("%d tickets stand after %d heartbeats", stand(), beats)
			}
			errtest.Must(s.Renew(t.Context(), nil))(t)
			history = "second"
			time.Sleep(s.TTL / 3)
		}
	})
}
