package exchange

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock/driver"
)

// Promise: when a replica has taken over, which may not have received that tickets were left,
// those become strays that nobody here knows, and no others; until it has said which these
// are, it is asked by every heartbeat, and no more after that.
func TestATicketWhoseLeaveAFailoverHasLostIsAStray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history, asked := "first", 0
		var fails error
		var stranded []Ref
		lost := Ref{"q", NewID()}
		s := stage(t, staged{
			join: func() (Status, error) { return Status{State: Held, Token: 7}, nil },
			renew: func(look []Ref) (Renewal, error) {
				r := Renewal{History: history}
				for range look {
					r.Tickets = append(r.Tickets, Status{State: Held, Token: 7})
				}
				return r, nil
			},
			detach: func(_ context.Context, strays []Ref) error { stranded = strays; return nil },
			tickets: func() ([]Ref, error) {
				asked++
				return []Ref{{mutex.Queue, mutex.ID}, lost}, fails
			},
		})
		k, err := s.Join(t.Context(), mutex)
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
			stranded, history, fails = nil, step.history, step.fails
			got, err := s.Renew(t.Context(), []driver.Ticket{k})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			isStray := func(r driver.Renewed) bool { return r.State == driver.Stray }
			if one := slices.IndexFunc(got, isStray); asked != step.asked || (one >= 0) != step.strays || step.strays && got[one].ID != lost.ID {
				t.Errorf("heartbeat %d: asked %d times, and it says %+v", i+1, asked, got)
			}
			if step.strays && !slices.Equal(stranded, []Ref{lost}) {
				t.Errorf("%v have an end of their own", stranded)
			}
		}
	})
}
