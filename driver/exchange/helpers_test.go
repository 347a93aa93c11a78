package exchange_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
)

// opened is a session, with a TTL of a minute, on a backend in memory that a script changes.
func opened(t *testing.T, script Script) *driver.Opened {
	t.Helper()
	store := newScripted()
	store.Script = script
	return sessionOf(t, store.Driver())
}

// over is one on a store.
func over(t *testing.T, store exchange.Store) *driver.Opened {
	t.Helper()
	return sessionOf(t, exchange.New(store, exchange.NewMailbox()))
}

// sessionOf is one of a driver, which is closed with the test.
func sessionOf(t *testing.T, d *exchange.Driver) *driver.Opened {
	t.Helper()
	t.Cleanup(func() { _ = d.Close() })
	return errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Minute, Owner: "me"}))(t)
}

// request asks for a mutex.
func request() driver.Request {
	return driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
}

func ticketOf(r driver.Request) driver.Ticket { return driver.Ticket{ID: r.ID, Queue: r.Queue} }

// joined is a new ticket of a session.
func joined(t *testing.T, s driver.Session) driver.Ticket {
	t.Helper()
	k := errtest.Must(s.Join(t.Context(), request()))(t)
	return k
}

// unanswered sends a Join that has no answer.
func unanswered(t *testing.T, s driver.Session, r driver.Request) {
	t.Helper()
	if _, err := s.Join(t.Context(), r); err == nil {
		t.Fatal("a Join without an answer succeeds")
	}
}

// noAnswer is a Join whose answer is lost.
func noAnswer(context.Context, exchange.Join) (exchange.Status, error) {
	return exchange.Status{}, context.DeadlineExceeded
}

var (
	held  = exchange.Status{State: exchange.Held, Token: 7}
	waits = exchange.Status{State: exchange.Waiting}
)

// says is a Join with this reply.
func says(st exchange.Status) func(context.Context, exchange.Join) (exchange.Status, error) {
	return func(context.Context, exchange.Join) (exchange.Status, error) { return st, nil }
}

// sees is a Look that finds each ticket so.
func sees(st func() exchange.Status) func(context.Context, exchange.Session, []exchange.Ref) ([]exchange.Status, error) {
	return func(_ context.Context, _ exchange.Session, refs []exchange.Ref) (all []exchange.Status, err error) {
		for range refs {
			all = append(all, st())
		}
		return all, nil
	}
}

// renews is a Renew that finds each ticket so.
func renews(st func() exchange.Status) func(context.Context, exchange.Session, []exchange.Ref, int) (exchange.Renewal, error) {
	return func(ctx context.Context, session exchange.Session, refs []exchange.Ref, _ int) (exchange.Renewal, error) {
		all, err := sees(st)(ctx, session, refs)
		return exchange.Renewal{Tickets: all}, err
	}
}

func always(st exchange.Status) func() exchange.Status { return func() exchange.Status { return st } }

// listens is a Listen that brings what a test sends, as soon as up is closed.
func listens(up <-chan struct{}, events <-chan exchange.Event) func(context.Context, string, func(), func(exchange.Event)) error {
	return func(ctx context.Context, _ string, isUp func(), receive func(exchange.Event)) error {
		<-up
		isUp()
		for {
			select {
			case ev := <-events:
				receive(ev)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// silent is a Listen of a backend that sends nothing.
func silent(context.Context, string, func(), func(exchange.Event)) error {
	return errors.ErrUnsupported
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
