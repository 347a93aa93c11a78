package exchange

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a ticket that was left while its Join was under way is not held by what the Join
// is answered later.
func TestAJoinThatIsAnsweredAfterItsLeave(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := stage(t, staged{
		join:  func() (Status, error) { close(asked); <-answer; return Status{State: Held, Token: 7}, nil },
		leave: func(Leave) (bool, error) { return false, nil },
	})
	joined := make(chan error)
	go func() {
		_, err := s.Join(context.Background(), mutex)
		joined <- err
	}()
	<-asked
	if err := s.Leave(t.Context(), driver.Ticket{ID: mutex.ID, Queue: mutex.Queue}, true); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if err := <-joined; !errors.Is(err, driver.ErrGone) {
		t.Errorf("Join of what has left: %v", err)
	}
}

// Promise: a Join that is repeated after its ticket has left does not bring it back, nor
// ask whether it stands.
func TestAJoinThatIsRepeatedAfterItsLeave(t *testing.T) {
	joins := 0
	s := stage(t, staged{
		join:  func() (Status, error) { joins++; return Status{State: Held, Token: 7}, nil },
		leave: func(Leave) (bool, error) { return false, nil },
	})
	r := mutex
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

// Promise: a ticket that somebody has evicted, or that is a stray, is not extended by its
// session's renewal, and so is not proven to stand longer by it.
func TestARenewalProvesNothingForWhatHasAnEndOfItsOwn(t *testing.T) {
	for name, own := range map[string]Status{
		"evicted": {State: Held, Token: 7, Evicted: true, Left: time.Minute},
		"a stray": {State: Held, Token: 7, Stray: true, Left: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(look []Ref) (all []Status, err error) {
				for range look {
					all = append(all, own)
				}
				return all, nil
			}
			s := stage(t, staged{
				join:  func() (Status, error) { return Status{State: Held, Token: 7}, nil },
				renew: renewing(answer), look: answer,
			})
			k := joined(t, s)
			time.Sleep(time.Millisecond)
			if _, err := s.Renew(t.Context(), []driver.Ticket{k}); err != nil {
				t.Fatal(err)
			}
			r := mutex
			r.ID, r.Retry = k.ID, true
			again, err := s.Join(t.Context(), r)
			if err != nil || !again.Held || again.Proof > k.Proof {
				t.Errorf("after the renewal it is proven from %v later: %+v, %v", again.Proof.Sub(k.Proof), again, err)
			}
		})
	}
}

// telling is a store whose events a test sends.
type telling struct {
	listening
	events chan Event
}

func (s telling) Listen(ctx context.Context, _ string, up func(), hear func(Event)) error {
	up()
	for {
		select {
		case e := <-s.events:
			hear(e)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (telling) Settle(context.Context, string) (bool, error) { return false, nil }

// Promise: a grant for a fixed time counts from when the database has made it. The news of
// it does not say when that was, so that the waiter asks.
func TestTheNewsOfAGrantForAFixedTimeIsAskedAbout(t *testing.T) {
	events := make(chan Event)
	told := Status{State: Held, Token: 7, Fixed: true, Hold: time.Hour, Left: 59 * time.Minute}
	s := stage(t, telling{listening{says: told, staged: staged{
		join: func() (Status, error) { return Status{State: Waiting}, nil },
	}}, events})
	r := mutex
	r.Hold = time.Hour
	k, err := s.Join(t.Context(), r)
	if err != nil || k.Held {
		t.Fatalf("Join: %+v, %v", k, err)
	}
	asked := driver.Now()
	go func() { events <- Event{Type: Granted, ID: r.ID, Status: Status{State: Held, Token: 7}} }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := s.Await(ctx, k)
	if since := got.Proof.Sub(asked); err != nil || !got.Held || since > -30*time.Second {
		t.Errorf("it was granted a minute ago, and is proven from %v from now: %+v, %v", since, got, err)
	}
}

// cleared is a store whose queue has somebody in front whose time is over soon, and who
// stands until the queue is settled after that.
type cleared struct {
	staged
	over    driver.Instant
	settled *atomic.Bool
}

func (s cleared) Settle(context.Context, string) (bool, error) {
	s.settled.Store(driver.Now() >= s.over)
	return false, nil
}

func (s cleared) Look(_ context.Context, _ string, refs []Ref) ([]Status, error) {
	st := Status{State: Waiting, Due: max(s.over.Sub(driver.Now()), 1)}
	if s.settled.Load() {
		st = Status{State: Held, Token: 7}
	}
	return []Status{st}, nil
}

func (cleared) Listen(context.Context, string, func(), func(Event)) error {
	return errors.ErrUnsupported
}

// Promise: the first in line has whoever has died in front of it taken out, when that is
// due, before it asks how it stands.
func TestTheFirstInLineRemovesTheDead(t *testing.T) {
	var settled atomic.Bool
	s := stage(t, cleared{staged{
		join: func() (Status, error) { return Status{State: Waiting, Due: time.Millisecond}, nil },
	}, driver.Now().Add(time.Millisecond), &settled})
	k, err := s.Join(t.Context(), mutex)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if k, err = s.Await(ctx, k); err != nil || !k.Held {
		t.Errorf("it waits behind the dead: %+v, %v", k, err)
	}
}
