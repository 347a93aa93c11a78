package exchange

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// heard is a store that can be listened to and looked at.
type heard struct {
	staged
	up     chan struct{} // from now on it listens
	looked chan []Ref
}

func (h heard) Listen(ctx context.Context, _ string, up func(), _ func(Event)) error {
	<-h.up
	up()
	<-ctx.Done()
	return ctx.Err()
}

func (h heard) Look(_ context.Context, _ string, refs []Ref) ([]Status, error) {
	var all []Status
	for range refs {
		all = append(all, Status{State: Held, Token: 7})
	}
	h.looked <- refs
	return all, nil
}

func (h heard) Settle(context.Context, string) (bool, error) { return false, nil }

// Promise: a ticket whose grant was sent before this client listened, and whose Join is
// answered only after the client had looked at all that waits, is looked at once more.
func TestListeningBeginsWhileAJoinIsUnderWay(t *testing.T) {
	h := heard{up: make(chan struct{}), looked: make(chan []Ref, 100)}
	asked, answer := make(chan struct{}), make(chan struct{})
	h.join = func() (Status, error) { close(asked); <-answer; return Status{State: Waiting}, nil }
	s := stage(t, h)
	leave := s.d.expectEvents() // somebody else waits
	defer leave()
	joined := make(chan driver.Ticket)
	go func() {
		k, err := s.Join(context.Background(), mutex)
		if err != nil {
			t.Error(err)
		}
		joined <- k
	}()
	looks := func() (n int) {
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		return s.d.resyncs
	}
	<-asked
	before := looks()
	close(h.up)
	for {
		s.d.listener.mu.Lock()
		up := s.d.listener.hears
		s.d.listener.mu.Unlock()
		if up && looks() > before {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(answer)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if k, err := s.Await(ctx, <-joined); err != nil || !k.Held {
		t.Errorf("it waits for ever: %+v, %v", k, err)
	}
}
