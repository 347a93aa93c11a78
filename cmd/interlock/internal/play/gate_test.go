package play

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

const (
	firstID = "00000000000000000000000000000001"
	nextID  = "00000000000000000000000000000002"
)

// opened is a session behind a gate, with a ticket that is held.
func opened(t *testing.T) (*gate, driver.Session, driver.Ticket) {
	t.Helper()
	g := newGate(memlock.New())
	s := errtest.Must(g.Open(t.Context(), driver.SessionOptions{TTL: 3 * time.Second}))(t)
	held, err := s.Join(t.Context(), driver.Request{ID: firstID, Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1})
	if err != nil || !held.Held {
		t.Fatalf("%+v, %v", held, err)
	}
	return g, s.Session, held
}

// Promise: while the gate is shut, no call of a worker gets through, and each ends with its context.
func TestAShutGateLetsNothingThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, held := opened(t)
		defer g.Close()
		before := g.Exchanges()
		g.cut()
		for name, call := range map[string]func(ctx context.Context) error{
			"Open": func(ctx context.Context) error {
				_, err := g.Open(ctx, driver.SessionOptions{TTL: time.Second})
				return err
			},
			"Join": func(ctx context.Context) error {
				_, err := s.Join(ctx, driver.Request{ID: nextID, Queue: "q"})
				return err
			},
			"Await":         func(ctx context.Context) error { _, err := s.Await(ctx, held); return err },
			"Leave":         func(ctx context.Context) error { return s.Leave(ctx, held, true) },
			"Renew":         func(ctx context.Context) error { _, err := s.Renew(ctx, []driver.Ticket{held}); return err },
			"Signals":       func(ctx context.Context) error { _, err := s.Signals(ctx); return err },
			"Session.Close": s.Close,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		if n := g.Exchanges(); n != before {
			t.Errorf("%d calls have got through", n-before)
		}
	})
}

// Promise: a call that was under way when the gate was shut has its answer when the gate opens, and not before.
func TestGateKeepsTheAnswerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s, held := opened(t)
		defer g.Close()
		next, err := s.Join(t.Context(), driver.Request{ID: nextID, Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1})
		if err != nil || next.Held {
			t.Fatalf("%+v, %v", next, err)
		}
		got := make(chan error, 1)
		go func() { _, err := s.Await(t.Context(), next); got <- err }()
		synctest.Wait()
		g.cut()
		errtest.None(t, s.(*gatedSession).Session.Leave(t.Context(), held, true))
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("the answer has come through the shut gate: %v", <-got)
		}
		g.mend()
		errtest.None(t, <-got)
	})
}

// Promise: a process that has the calls locked is in none that asks the backend. One that waits goes on.
func TestGateKnowsWhichCallsCanBeStopped(t *testing.T) {
	g, _, held := opened(t)
	defer g.Close()
	s := &gatedSession{lookingSession{nil, t, g}, g}
	errtest.Must(s.Renew(t.Context(), nil))(t)
	errtest.Must(s.Await(t.Context(), held))(t)
}

// lookingSession looks whether the calls could be locked during one.
type lookingSession struct {
	driver.Session
	t *testing.T
	g *gate
}

func (s lookingSession) could(want bool) {
	got := s.g.calls.TryLock()
	if got {
		s.g.calls.Unlock()
	}
	if got != want {
		s.t.Errorf("the calls could be locked: %v, want %v", got, want)
	}
}

func (s lookingSession) Renew(context.Context, []driver.Ticket) ([]driver.Renewed, error) {
	s.could(false)
	return nil, nil
}

func (s lookingSession) Await(_ context.Context, t driver.Ticket) (driver.Ticket, error) {
	s.could(true)
	return t, nil
}
