package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a queue that is to be settled while it is being settled is settled once more:
// what happened meanwhile may not have been seen.
func TestSettlingBesideSettling(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	store := newScripted()
	store.Script.Settle = func(context.Context, string) (bool, error) {
		begun <- struct{}{}
		<-end
		return false, nil
	}
	d := store.Driver()
	t.Cleanup(func() { _ = d.Close() })
	d.Settle("q")
	<-begun
	for range 3 {
		d.Settle("q")
	}
	end <- struct{}{}
	<-begun // once more
	end <- struct{}{}
	if !d.Settled("q") { // and not again
		t.Error("it is still being settled")
	}
}

// unsettled is a store that finds each queue unsettled, and refuses calls with an error.
type unsettled struct {
	exchange.Store
	exchange.Changer
	status  exchange.Status
	refuses error
	settles atomic.Int32
}

func (u *unsettled) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, u, changes, answer)
}
func (u *unsettled) Join(context.Context, exchange.Join) (exchange.Status, error) {
	return u.status, u.refuses
}
func (u *unsettled) Leave(context.Context, exchange.Leave) (bool, error) { return true, u.refuses }
func (u *unsettled) Withdraw(_ context.Context, _ exchange.Session, _ string, ids []string, _ bool) ([]bool, bool, error) {
	return make([]bool, len(ids)), true, u.refuses
}
func (u *unsettled) Shrink(context.Context, exchange.Session, exchange.Ref, int64) (bool, error) {
	return true, u.refuses
}
func (u *unsettled) Ask(context.Context, string, string, driver.Demand) (bool, error) {
	return true, u.refuses
}
func (u *unsettled) Renew(context.Context, exchange.Session, []exchange.Ref, int) (exchange.Renewal, error) {
	return exchange.Renewal{Tickets: []exchange.Status{u.status}}, nil
}
func (u *unsettled) Look(context.Context, exchange.Session, []exchange.Ref) ([]exchange.Status, error) {
	return []exchange.Status{u.status}, nil
}
func (u *unsettled) End(context.Context, exchange.Session, []exchange.Leave) ([]string, error) {
	return []string{"q"}, nil
}
func (u *unsettled) Settle(_ context.Context, queue string) (bool, error) {
	if queue != "q" {
		return false, errors.New("another queue")
	}
	return u.settles.Add(1)%3 != 0, nil // the third one finds no more to do
}

// Promise: a queue that an exchange has left, or found, unsettled is settled until nothing more is to be
// done, also if the exchange was refused: else those who could hold wait for a heartbeat.
func TestAQueueThatIsFoundUnsettledIsSettled(t *testing.T) {
	calls := map[string]func(context.Context, *driver.Opened, driver.Request) error{
		"Join": func(ctx context.Context, s *driver.Opened, r driver.Request) error {
			r.ID = exchange.NewID()
			_, err := s.Join(ctx, r)
			return err
		},
		"a Join that looks for its ticket": func(ctx context.Context, s *driver.Opened, r driver.Request) error {
			r.Retry = true
			_, err := s.Join(ctx, r)
			return err
		},
		"Leave": func(ctx context.Context, s *driver.Opened, r driver.Request) error {
			return s.Leave(ctx, ticketOf(r), true)
		},
		"Shrink": func(ctx context.Context, s *driver.Opened, r driver.Request) error {
			return s.Shrink(ctx, ticketOf(r), 1)
		},
		"Ask": func(ctx context.Context, s *driver.Opened, r driver.Request) error {
			return exchange.DriverOf(s).Ask(ctx, r.Queue, r.ID, driver.Force)
		},
		"Renew": func(ctx context.Context, s *driver.Opened, r driver.Request) error {
			_, err := s.Renew(ctx, []driver.Ticket{ticketOf(r)})
			return err
		},
		"Close": func(ctx context.Context, s *driver.Opened, _ driver.Request) error { return s.Close(ctx) },
	}
	for name, call := range calls {
		for _, state := range []exchange.State{exchange.Held, exchange.Waiting} {
			for _, refuses := range []error{nil, driver.ErrGone} {
				t.Run(fmt.Sprintf("%s of a ticket in state %d, %v", name, state, refuses), func(t *testing.T) {
					bubble.Run(t, func(t *testing.T) {
						u := &unsettled{Store: exchangetest.NewWorld().Store(), status: exchange.Status{State: state, Token: 7, Unsettled: true}}
						s := over(t, u)
						r := request()
						errtest.Must(s.Join(t.Context(), r))(t)
						synctest.Wait()
						before := u.settles.Load()
						u.refuses = refuses
						if err := call(t.Context(), s, r); err != nil && err != refuses {
							t.Fatal(err)
						}
						synctest.Wait()
						if n := u.settles.Load() - before; n != 3 {
							t.Errorf("%d settles, not 3", n)
						}
					})
				})
			}
		}
	}
}
