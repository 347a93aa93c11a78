package exchange_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
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
		s := opened(t, exchangetest.Script{
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
		k, err := s.Join(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
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
			got, err := s.Renew(t.Context(), []driver.Ticket{k})
			if err != nil {
				t.Fatal(err)
			}
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
