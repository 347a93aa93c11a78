package exchange_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a ticket that was left while its Join was under way is not held by what the Join
// is answered later.
func TestAJoinThatIsAnsweredAfterItsLeave(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := opened(t, Script{
		Join: func(context.Context, exchange.Join) (exchange.Status, error) {
			close(asked)
			<-answer
			return held, nil
		},
		Leave: func(context.Context, exchange.Leave) (bool, error) { return false, nil },
	})
	r := request()
	joined := make(chan error)
	go func() {
		_, err := s.Join(context.Background(), r)
		joined <- err
	}()
	<-asked
	errtest.None(t, s.Leave(t.Context(), ticketOf(r), true))
	close(answer)
	errtest.Is(t, <-joined, driver.ErrGone, "Join of what has left")
}

// Promise: a Join that is repeated after its ticket has left does not bring it back, nor
// ask whether it stands.
func TestAJoinThatIsRepeatedAfterItsLeave(t *testing.T) {
	joins := 0
	s := opened(t, Script{
		Join:  func(context.Context, exchange.Join) (exchange.Status, error) { joins++; return held, nil },
		Leave: func(context.Context, exchange.Leave) (bool, error) { return false, nil },
	})
	r := request()
	k, err := s.Join(t.Context(), r)
	if err == nil {
		err = s.Leave(t.Context(), k, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Retry = true
	if _, err := s.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) || joins != 1 {
		t.Errorf("it is asked %d times, and answers %v", joins, err)
	}
}

// Promise: a Join that finds the ticket of an earlier one, whose answer was lost, proves
// no more than the last renewal does: that one may have come long ago.
func TestAJoinThatFindsItsTicket(t *testing.T) {
	first := true
	s := opened(t, Script{Join: func(context.Context, exchange.Join) (exchange.Status, error) {
		if first {
			first = false
			return exchange.Status{}, context.DeadlineExceeded
		}
		return held, nil
	}})
	renewed := exchange.DriverOf(s).Now() // by Open
	r := request()
	unanswered(t, s, r)
	time.Sleep(time.Millisecond)
	r.Retry = true
	k, err := s.Join(t.Context(), r)
	if err != nil || !k.Held {
		t.Fatalf("Join, repeated: %+v, %v", k, err)
	}
	if k.Proof > renewed {
		t.Errorf("it is proven to stand from %v after the last renewal", k.Proof.Sub(renewed))
	}
}

// Promise: a ticket that somebody has evicted, or that is a stray, is not extended by its
// session's renewal, and so is not proven to stand longer by it.
func TestARenewalProvesNothingForWhatHasAnEndOfItsOwn(t *testing.T) {
	for name, own := range map[string]exchange.Status{
		"evicted": {State: exchange.Held, Token: 7, Evicted: true, Left: time.Minute},
		"a stray": {State: exchange.Held, Token: 7, Stray: true, Left: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, Script{Join: says(held), Renew: renews(always(own)), Look: sees(always(own))})
			r := request()
			k := errtest.Must(s.Join(t.Context(), r))(t)
			time.Sleep(time.Millisecond)
			errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
			r.Retry = true
			again, err := s.Join(t.Context(), r)
			if err != nil || !again.Held || again.Proof > k.Proof {
				t.Errorf("after the renewal it is proven from %v later: %+v, %v", again.Proof.Sub(k.Proof), again, err)
			}
		})
	}
}

// Promise: a grant for a fixed time counts from when the backend has made it. The event of
// it does not say when that was, so that the waiter asks.
func TestTheEventOfAGrantForAFixedTimeIsAskedAbout(t *testing.T) {
	events := make(chan exchange.Event)
	granted := exchange.Status{State: exchange.Held, Token: 7, Fixed: true, Hold: time.Hour, Left: 59 * time.Minute}
	s := opened(t, Script{Join: says(waits), Look: sees(always(granted)), Listen: listens(closed(), events)})
	r := request()
	r.Hold = time.Hour
	k, err := s.Join(t.Context(), r)
	if err != nil || k.Held {
		t.Fatalf("Join: %+v, %v", k, err)
	}
	asked := exchange.DriverOf(s).Now()
	go func() { events <- exchange.Event{Type: exchange.Granted, ID: r.ID, Status: held} }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := s.Await(ctx, k)
	if since := got.Proof.Sub(asked); err != nil || !got.Held || since > -30*time.Second || since < -90*time.Second {
		t.Errorf("it was granted a minute ago, and is proven from %v from now: %+v, %v", since, got, err)
	}
}

// Promise: Await of a ticket whose Join has not arrived says so.
func TestAwaitOfATicketWhoseJoinHasNotArrived(t *testing.T) {
	s := opened(t, Script{
		Join:   noAnswer,
		Look:   sees(always(exchange.Status{State: exchange.Gone})),
		Listen: listens(closed(), nil),
	})
	r := request()
	unanswered(t, s, r)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if k, err := s.Await(ctx, ticketOf(r)); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Await: %+v, %v", k, err)
	}
}

// Promise: the first in line has whoever has died in front of it taken out, when that is
// due, before it asks how it stands.
func TestTheFirstInLineRemovesTheDead(t *testing.T) {
	var settled atomic.Bool
	over := time.Now().Add(time.Millisecond)
	s := opened(t, Script{
		Join: says(exchange.Status{State: exchange.Waiting, Due: time.Millisecond}),
		Settle: func(context.Context, string) (bool, error) {
			settled.Store(!time.Now().Before(over))
			return false, nil
		},
		Look: sees(func() exchange.Status {
			if settled.Load() {
				return held
			}
			return exchange.Status{State: exchange.Waiting, Due: max(time.Until(over), 1)}
		}),
		Listen: silent,
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if k, err := s.Await(ctx, joined(t, s)); err != nil || !k.Held {
		t.Errorf("it waits behind the dead: %+v, %v", k, err)
	}
}

// Promise: what a heartbeat has proven stays so when the reply of an earlier one comes.
func TestAHeartbeatThatIsAnsweredLate(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	var heartbeats atomic.Int32
	s := opened(t, Script{
		Join: says(held), Look: sees(always(held)),
		Renew: func(context.Context, exchange.Session, []exchange.Ref, int) (exchange.Renewal, error) {
			if heartbeats.Add(1) == 1 {
				close(asked)
				<-answer
			}
			return exchange.Renewal{Tickets: []exchange.Status{held}}, nil
		},
	})
	r := request()
	k := errtest.Must(s.Join(t.Context(), r))(t)
	var late sync.WaitGroup
	late.Go(func() {
		if _, err := s.Renew(context.Background(), []driver.Ticket{k}); err != nil {
			t.Error(err)
		}
	})
	<-asked
	got := errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
	close(answer)
	late.Wait()
	r.Retry = true
	if again, err := s.Join(t.Context(), r); err != nil || again.Proof < got[0].Proof {
		t.Errorf("it was proven from %v, and is from %v, %v", got[0].Proof, again.Proof, err)
	}
}

// Promise: waiters near the front look one after the other, since those in front of them may be dead too.
func TestWaitersLookInTheirOrder(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		began := time.Now()
		var looked []time.Duration
		ahead := 0
		s, _ := listening(t, Script{
			Join: func(context.Context, exchange.Join) (exchange.Status, error) {
				ahead++
				return exchange.Status{State: exchange.Waiting, Due: time.Second, Ahead: ahead - 1}, nil
			},
			Settle: func(context.Context, string) (bool, error) {
				looked = append(looked, time.Since(began))
				return false, nil
			},
			Look: sees(always(waits)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			k := joined(t, s)
			all.Go(func() { _, _ = s.Await(ctx, k) })
			synctest.Wait()
		}
		time.Sleep(s.TTL / 10)
		cancel()
		all.Wait()
		for i := range 3 {
			if len(looked) != 3 || looked[i] < time.Second+time.Duration(i)*s.TTL/200 {
				t.Fatalf("after a second they look after %v", looked)
			}
		}
	})
}
