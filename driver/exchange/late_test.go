package exchange

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

// staged is a store of which a test decides when it answers what.
type staged struct {
	Store
	join   func() (Status, error)
	renew  func(look []Ref) (Renewal, error)
	detach func(ctx context.Context, tickets []Ref) error // nil: it succeeds
	attach func(ctx context.Context, tickets []Ref) error // nil: it succeeds
	look   func([]Ref) ([]Status, error)
	leave  func(Leave) (bool, error)

	tickets func() ([]Ref, error)
}

func (s staged) Begin(context.Context, Session) (string, error)                 { return "first", nil }
func (s staged) Join(context.Context, Join) (Status, error)                     { return s.join() }
func (s staged) Leave(_ context.Context, l Leave) (bool, error)                 { return s.leave(l) }
func (s staged) Explain(err error) error                                        { return err }
func (s staged) Close()                                                         {}
func (s staged) Renew(_ context.Context, _ string, look []Ref) (Renewal, error) { return s.renew(look) }

func (s staged) Tickets(context.Context, string) ([]Ref, error) { return s.tickets() }

func (s staged) Look(_ context.Context, _ string, look []Ref) ([]Status, error) { return s.look(look) }

func (s staged) Detach(ctx context.Context, _ string, tickets []Ref) error {
	if s.detach == nil {
		return nil
	}
	return s.detach(ctx, tickets)
}

func (s staged) Attach(ctx context.Context, _ string, tickets []Ref) error {
	if s.attach == nil {
		return nil
	}
	return s.attach(ctx, tickets)
}

// renewing answers a heartbeat as a look.
func renewing(look func([]Ref) ([]Status, error)) func([]Ref) (Renewal, error) {
	return func(refs []Ref) (Renewal, error) {
		all, err := look(refs)
		return Renewal{Tickets: all}, err
	}
}

func stage(t *testing.T, s Store) *session {
	t.Helper()
	d := New(s, NewMailbox())
	t.Cleanup(func() { _ = d.Close() })
	opened, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return opened.(*session)
}

var mutex = driver.Request{ID: NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}

// Promise: a heartbeat that was asked about a ticket before its Join arrived, and is
// answered after the Join, does not make it forgotten: what a session has forgotten it
// would extend for ever.
func TestAHeartbeatThatCrossesAJoin(t *testing.T) {
	asked, joined := make(chan struct{}), make(chan struct{})
	first := true
	var stranded []Ref
	s := stage(t, staged{
		detach: func(_ context.Context, strays []Ref) error { stranded = strays; return nil },
		join: func() (Status, error) {
			<-asked
			return Status{State: Held, Token: 7}, nil
		},
		renew: func(look []Ref) (Renewal, error) {
			if first {
				first = false
				if len(stranded) != 0 { // it would wait for what the Join waits for
					t.Errorf("stranded: %v", stranded)
				}
				close(asked)
				<-joined
				return Renewal{Tickets: make([]Status, len(look))}, nil // none stands
			}
			if len(stranded) != 1 || stranded[0].ID != mutex.ID {
				t.Errorf("then stranded: %v", stranded)
			}
			return Renewal{Tickets: []Status{{State: Held, Token: 7, Stray: true, Left: time.Minute}}}, nil
		},
	})
	go func() {
		defer close(joined)
		if k, err := s.Join(context.Background(), mutex); err != nil || !k.Held {
			t.Errorf("Join: %v, %v", k, err)
		}
	}()
	for { // until the Join is under way
		s.d.mu.Lock()
		under := len(s.entries)
		s.d.mu.Unlock()
		if under == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Renew(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	got, err := s.Renew(t.Context(), nil)
	if err != nil || len(got) != 1 || got[0].State != driver.Stray {
		t.Errorf("the next heartbeat: %v, %v", got, err)
	}
}

// Promise: a Join without an answer may still arrive: a Leave has it refused, and as
// long as it is not left its ticket is a stray.
func TestAJoinWithoutAnAnswer(t *testing.T) {
	var refused time.Duration
	s := stage(t, staged{
		join:  func() (Status, error) { return Status{}, context.DeadlineExceeded },
		leave: func(l Leave) (bool, error) { refused = l.Tombstone; return false, driver.ErrGone },
		renew: func(look []Ref) (Renewal, error) { return Renewal{Tickets: make([]Status, len(look))}, nil },
		detach: func(_ context.Context, strays []Ref) error {
			if len(strays) != 1 {
				t.Errorf("stranded: %v", strays)
			}
			return nil
		},
	})
	if _, err := s.Join(t.Context(), mutex); err == nil {
		t.Fatal("Join succeeds")
	}
	for range 2 {
		if _, err := s.Renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Leave(t.Context(), driver.Ticket{ID: mutex.ID, Queue: mutex.Queue}, true); err != driver.ErrGone {
		t.Errorf("Leave: %v", err)
	}
	if refused < s.ttl {
		t.Errorf("its Join is refused for %v", refused)
	}
}

// Promise: a heartbeat does not wait for a connection behind calls.
func TestAHeartbeatBesideManyCalls(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		joining, done := make(chan struct{}), make(chan struct{})
		s := stage(t, staged{
			join: func() (Status, error) {
				joining <- struct{}{}
				<-done
				return Status{State: Held, Token: 7}, nil
			},
			renew: func([]Ref) (Renewal, error) { return Renewal{}, nil },
		})
		s.d.Limit(NewLimiter(2, 0, 0))
		join := func(ctx context.Context) error {
			r := mutex
			r.ID = NewID()
			_, err := s.Join(ctx, r)
			return err
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if err := join(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		for range 2 {
			<-joining
		}
		if _, err := s.Renew(t.Context(), nil); err != nil {
			t.Error(err)
		}
		waits, cancel := context.WithCancel(t.Context())
		givesUp := make(chan error, 1)
		go func() { givesUp <- join(waits) }()
		synctest.Wait()
		select {
		case <-joining:
			t.Error("more calls at once than there are connections for")
		case err := <-givesUp:
			t.Errorf("a call did not wait: %v", err)
		default:
		}
		cancel()
		if err := <-givesUp; err != context.Canceled {
			t.Errorf("a call that waits for others: %v", err)
		}
		close(done)
		for range 3 {
			<-joining
		}
		all.Wait()
	})
}

// deaf is a store whose connection leads nowhere: looks have no answer.
type deaf struct {
	staged
	asked chan struct{}
}

func (d deaf) Settle(ctx context.Context, _ string) (bool, error) {
	d.asked <- struct{}{}
	<-ctx.Done()
	return false, ctx.Err()
}

func (deaf) Look(ctx context.Context, _ string, _ []Ref) ([]Status, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (deaf) Listen(context.Context, string, func(), func(Event)) error { return errors.ErrUnsupported }

// Promise: whoever waits, and asks over a connection that leads nowhere, hears what a
// heartbeat has found out meanwhile over another one.
func TestALookWithoutAnAnswer(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := stage(t, deaf{asked: make(chan struct{}, 100), staged: staged{
			join: func() (Status, error) { return Status{State: Waiting, Due: time.Millisecond}, nil },
			renew: func([]Ref) (Renewal, error) {
				return Renewal{Tickets: []Status{{State: Held, Token: 7}}}, nil
			},
		}})
		k, err := s.Join(t.Context(), mutex)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan driver.Ticket)
		go func() {
			k, err := s.Await(t.Context(), k)
			if err != nil {
				t.Error(err)
			}
			got <- k
		}()
		<-s.d.store.(deaf).asked
		if _, err := s.Renew(t.Context(), []driver.Ticket{k}); err != nil {
			t.Fatal(err)
		}
		select {
		case k := <-got:
			if !k.Held || k.Token != 7 {
				t.Errorf("%+v", k)
			}
		case <-time.After(10 * lookTimeout):
			t.Fatal("it waits for ever")
		}
	})
}

// listening is a store that can be listened to, and answers every look alike.
type listening struct {
	staged
	says Status
}

func (l listening) Listen(ctx context.Context, _ string, up func(), _ func(Event)) error {
	up()
	<-ctx.Done()
	return ctx.Err()
}

func (l listening) Look(_ context.Context, _ string, refs []Ref) ([]Status, error) {
	all := make([]Status, len(refs))
	for i := range all {
		all[i] = l.says
	}
	return all, nil
}

// Promise: what somebody has asked of a held ticket before its client listened is told
// once it listens, and not by the next heartbeat only.
func TestADemandBeforeTheClientListened(t *testing.T) {
	t.Parallel()
	s := stage(t, listening{says: Status{State: Held, Token: 7, Revoked: true}, staged: staged{
		join: func() (Status, error) { return Status{State: Held, Token: 7}, nil },
	}})
	if _, err := s.Join(t.Context(), mutex); err != nil {
		t.Fatal(err)
	}
	defer s.d.expectEvents()() // as whoever waits for something else
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got, err := s.Signals(ctx); err != nil || got.Demand != driver.Revoke || got.ID != mutex.ID {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Promise: the look for news that were missed before a client listened is repeated until it has
// an answer, and does not wait for the next heartbeat.
func TestALookThatFailsIsRepeated(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		looks := 0
		s := stage(t, interrupted{listening: listening{says: Status{State: Held, Token: 7}, staged: staged{
			join: func() (Status, error) { return Status{State: Waiting}, nil },
		}}, looks: &looks})
		k, err := s.Join(t.Context(), mutex)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if k, err = s.Await(ctx, k); err != nil || k.Token != 7 || looks != 3 {
			t.Errorf("after %d looks: %+v, %v", looks, k, err)
		}
	})
}

// interrupted is a store of which the first looks fail.
type interrupted struct {
	listening
	looks *int
}

func (s interrupted) Look(ctx context.Context, session string, refs []Ref) ([]Status, error) {
	if *s.looks++; *s.looks < 3 {
		return nil, errors.New("canceling statement due to user request")
	}
	return s.listening.Look(ctx, session, refs)
}

// Promise: a Join that finds the ticket of an earlier one, whose answer was lost, proves
// no more than the last renewal does: that one may have come long ago.
func TestAJoinThatFindsItsTicket(t *testing.T) {
	first := true
	s := stage(t, staged{join: func() (Status, error) {
		if first {
			first = false
			return Status{}, context.DeadlineExceeded
		}
		return Status{State: Held, Token: 7}, nil
	}})
	renewed := driver.Now() // by Open
	if _, err := s.Join(t.Context(), mutex); err == nil {
		t.Fatal("a Join without an answer succeeds")
	}
	time.Sleep(time.Millisecond)
	again := mutex
	again.Retry = true
	k, err := s.Join(t.Context(), again)
	if err != nil || !k.Held {
		t.Fatalf("Join, repeated: %+v, %v", k, err)
	}
	if k.Proof > renewed {
		t.Errorf("it is proven to stand from %v after the last renewal", k.Proof.Sub(renewed))
	}
}
