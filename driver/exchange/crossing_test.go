package exchange_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a ticket whose grant was sent before this client listened, and whose Join is
// answered only after the client had looked at all that waits, is looked at once more.
func TestListeningBeginsWhileAJoinIsUnderWay(t *testing.T) {
	up, asked, answer := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := opened(t, Script{
		Listen: listens(up, nil), Look: sees(always(held)),
		Join: func(context.Context, exchange.Join) (exchange.Status, error) {
			close(asked)
			<-answer
			return waits, nil
		},
	})
	d := exchange.DriverOf(s)
	defer d.ExpectEvents()() // as another call that waits
	joined := make(chan driver.Ticket)
	go func() {
		k, err := s.Join(context.Background(), request())
		if err != nil {
			t.Error(err)
		}
		joined <- k
	}()
	<-asked
	before := d.Resyncs()
	close(up)
	for !d.Hears() || d.Resyncs() == before {
		time.Sleep(time.Millisecond)
	}
	close(answer)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if k, err := s.Await(ctx, <-joined); err != nil || !k.Held {
		t.Errorf("it waits for ever: %+v, %v", k, err)
	}
}

// Promise: a heartbeat that was asked about a ticket before its Join arrived, and is
// answered after the Join, does not make it forgotten: what a session has forgotten it
// would extend for ever.
func TestAHeartbeatThatCrossesAJoin(t *testing.T) {
	asked, joined := make(chan struct{}), make(chan struct{})
	first := true
	r := request()
	var strays []exchange.Ref
	s := opened(t, Script{
		Detach: func(_ context.Context, _ exchange.Session, tickets []exchange.Ref) error {
			strays = tickets
			return nil
		},
		Join: func(context.Context, exchange.Join) (exchange.Status, error) {
			<-asked
			return held, nil
		},
		Renew: func(_ context.Context, _ exchange.Session, refs []exchange.Ref, _ int) (exchange.Renewal, error) {
			if first {
				first = false
				if len(strays) != 0 { // it would wait for what the Join waits for
					t.Errorf("strays: %v", strays)
				}
				close(asked)
				<-joined
				return exchange.Renewal{Tickets: make([]exchange.Status, len(refs))}, nil // none stands
			}
			if len(strays) != 1 || strays[0].ID != r.ID {
				t.Errorf("then strays: %v", strays)
			}
			return exchange.Renewal{Tickets: []exchange.Status{{State: exchange.Held, Token: 7, Stray: true, Left: time.Minute}}}, nil
		},
	})
	go func() {
		defer close(joined)
		if k, err := s.Join(context.Background(), r); err != nil || !k.Held {
			t.Errorf("Join: %v, %v", k, err)
		}
	}()
	for exchange.DriverOf(s).Entries() != 1 { // until the Join is under way
		time.Sleep(time.Millisecond)
	}
	errtest.Must(s.Renew(t.Context(), nil))(t)
	got, err := s.Renew(t.Context(), nil)
	if err != nil || len(got) != 1 || got[0].State != driver.Stray {
		t.Errorf("the next heartbeat: %v, %v", got, err)
	}
}

// Promise: a Join without an answer may still arrive: a Leave has it refused, and as
// long as it is not left its ticket is a stray.
func TestAJoinWithoutAnAnswer(t *testing.T) {
	var refused time.Duration
	s := opened(t, Script{
		Join: noAnswer,
		Leave: func(_ context.Context, l exchange.Leave) (bool, error) {
			refused = l.Tombstone
			return false, driver.ErrGone
		},
		Renew: renews(always(exchange.Status{})),
		Detach: func(_ context.Context, _ exchange.Session, strays []exchange.Ref) error {
			if len(strays) != 1 {
				t.Errorf("strays: %v", strays)
			}
			return nil
		},
	})
	r := request()
	unanswered(t, s, r)
	for range 2 {
		errtest.Must(s.Renew(t.Context(), nil))(t)
	}
	if err := s.Leave(t.Context(), ticketOf(r), true); err != driver.ErrGone {
		t.Errorf("Leave: %v", err)
	}
	if refused < s.TTL {
		t.Errorf("its Join is refused for %v", refused)
	}
}

// Promise: a heartbeat says nothing of a ticket whose Join has no reply, if the backend has not got it: the
// Join may arrive yet.
func TestAHeartbeatDoesNotKnowWhatMayCome(t *testing.T) {
	s := opened(t, Script{
		Join:  noAnswer,
		Renew: renews(always(exchange.Status{State: exchange.Gone})),
	})
	r := request()
	unanswered(t, s, r)
	if got, err := s.Renew(t.Context(), []driver.Ticket{ticketOf(r)}); err != nil || len(got) != 0 {
		t.Errorf("the heartbeat says %+v, %v", got, err)
	}
}

// Promise: an answer that was on its way while another one brought the grant takes nothing of it back: what the
// client then says of the ticket, and of its fixed end, is that of a holder.
func TestAnAnswerFromBeforeTheGrantChangesNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		granted := exchange.Status{State: exchange.Held, Token: 7, Tag: 3, Fixed: true, Hold: time.Hour, Left: time.Hour}
		slow := make(chan struct{})
		var left exchange.Leave
		s, send := listening(t, Script{
			Join: says(exchange.Status{State: exchange.Waiting, Tag: 2}),
			Look: func(ctx context.Context, row exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
				<-slow
				return sees(always(exchange.Status{State: exchange.Waiting, Tag: 2}))(ctx, row, refs)
			},
			Renew: renews(always(granted)),
			Leave: func(_ context.Context, l exchange.Leave) (bool, error) { left = l; return false, nil },
		})
		r := request()
		r.Hold = time.Hour
		k := errtest.Must(s.Join(t.Context(), r))(t)
		send(k.ID, exchange.Event{Type: exchange.Granted, Unverified: true})
		sent := exchange.DriverOf(s).Now()
		errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
		time.Sleep(time.Second)
		close(slow)
		synctest.Wait()
		got, err := s.Await(within(t), k)
		if err != nil || !got.Held || got.Proof != sent {
			t.Errorf("it is %+v, %v, with a proof that is not from %v", got, err, sent)
		}
		if err := s.Leave(t.Context(), k, true); err != nil || left.Tag != granted.Tag {
			t.Errorf("it leaves with the tag %d, %v", left.Tag, err)
		}
	})
}

// Promise: where the network has brought a Join twice within a minute, it may bring the Leave of any ticket twice, and
// the second copy finds none: that is no loss, unless the ticket was lost before.
func TestALeaveOnAWayThatRepeats(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		st := exchange.Status{State: exchange.Held, Token: 7, Found: true}
		s := opened(t, Script{
			Join:  func(context.Context, exchange.Join) (exchange.Status, error) { return st, nil },
			Leave: func(context.Context, exchange.Leave) (bool, error) { return false, driver.ErrGone },
			Look:  sees(func() exchange.Status { return st }),
		})
		errtest.None(t, s.Leave(t.Context(), joined(t, s), true))
		st.Found = false
		errtest.None(t, s.Leave(t.Context(), joined(t, s), true))
		lost := joined(t, s)
		st.State = exchange.Gone
		errtest.Is(t, s.Leave(t.Context(), lost, true), driver.ErrGone, "Leave of a ticket that was lost")
		st.State = exchange.Held
		time.Sleep(time.Minute)
		errtest.Is(t, s.Leave(t.Context(), joined(t, s), true), driver.ErrGone, "Leave on a way that has repeated nothing for long")
	})
}
