package zklock_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
)

// A steady driver repeats what callers of a driver have to repeat while servers come
// and go: calls that failed and may succeed, with the same identity.
type steady struct{ driver.Driver }

const steadyScheme = "zk-steady"

func init() {
	driver.Register(steadyScheme, func(ctx context.Context, u *driver.URL) (driver.Driver, error) {
		plain := *u
		plain.Scheme = "zk"
		d, err := zklock.Open(ctx, &plain)
		if err != nil {
			return nil, err
		}
		return steady{d}, nil
	})
}

// steadily makes a call until it has an answer. What is refused because the first
// try has worked is no failure: call says so when it is repeated.
func steadily(ctx context.Context, call func(again bool) error) error {
	for again := false; ; again = true {
		err := call(again)
		if err == nil || driver.IsPermanent(err) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// A ledger is what the steady drivers of all processes of a test know of tickets: a file
// for each fact.
type ledger string

const ledgerVariable = "ZKLOCK_TEST_LEDGER"

func tickets() ledger { return ledger(os.Getenv(ledgerVariable)) }

// The words of the ledger.
const (
	sent = "sent" // its Join
	left = "left" // it does not stand any more
)

func (l ledger) note(word, id string) {
	if l == "" {
		panic("no " + ledgerVariable)
	}
	if err := os.WriteFile(filepath.Join(string(l), word+id), nil, 0o600); err != nil {
		panic(err)
	}
}

func (l ledger) has(word, id string) bool {
	_, err := os.Stat(filepath.Join(string(l), word+id))
	return err == nil
}

// removed reports whether an earlier try of a call may have made the ticket go, and
// nothing else is known to have.
func (l ledger) removed(again bool, id string, err error) bool {
	return again && errors.Is(err, driver.ErrGone) && l.has(sent, id) && !l.has(left, id)
}

// leaving forgives that a ticket has gone if an earlier try may have done it.
func leaving(again bool, id string, err error) error {
	l := tickets()
	removed := l.removed(again, id, err)
	if err == nil || errors.Is(err, driver.ErrGone) {
		l.note(left, id)
	}
	if removed {
		return nil
	}
	return err
}

func (d steady) Open(ctx context.Context, o driver.SessionOptions) (s *driver.Opened, err error) {
	err = steadily(ctx, func(bool) (err error) { s, err = d.Driver.Open(ctx, o); return err })
	if err != nil {
		return nil, err
	}
	s.Session = steadySession{s.Session}
	return s, nil
}

func (d steady) Load(ctx context.Context, name string) (c driver.Cell, err error) {
	err = steadily(ctx, func(bool) (err error) { c, err = d.Driver.Load(ctx, name); return err })
	return c, err
}

func (d steady) Swap(ctx context.Context, s driver.Swap) (c driver.Cell, err error) {
	err = steadily(ctx, func(bool) (err error) { c, err = d.Driver.Swap(ctx, s); return err })
	return c, err
}

func (d steady) Watch(ctx context.Context, name string, after uint64) (c driver.Cell, err error) {
	err = steadily(ctx, func(bool) (err error) { c, err = d.Driver.Watch(ctx, name, after); return err })
	return c, err
}

func (d steady) Follow(ctx context.Context, queue, after string) (q driver.Queue, err error) {
	err = steadily(ctx, func(bool) (err error) { q, err = d.Driver.Follow(ctx, queue, after); return err })
	return q, err
}

func (d steady) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		var all []driver.Queue
		err := steadily(ctx, func(bool) error {
			all = nil
			for q, err := range d.Driver.Queues(ctx, prefix) {
				if err != nil {
					return err
				}
				all = append(all, q)
			}
			return nil
		})
		for _, q := range all {
			if !yield(q, nil) {
				return
			}
		}
		if err != nil {
			yield(driver.Queue{}, err)
		}
	}
}

func (d steady) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var all []string
		err := steadily(ctx, func(bool) error {
			all = nil
			for name, err := range d.Driver.Cells(ctx, prefix) {
				if err != nil {
					return err
				}
				all = append(all, name)
			}
			return nil
		})
		for _, name := range all {
			if !yield(name, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func (d steady) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return steadily(ctx, func(again bool) error {
		err := d.Driver.Ask(ctx, queue, id, what)
		if what != driver.Force {
			if what == driver.Evict && tickets().removed(again, id, err) {
				return nil // it waited
			}
			return err
		}
		return leaving(again, id, err)
	})
}

func (d steady) Raise(ctx context.Context, queue string, floor uint64) error {
	return steadily(ctx, func(bool) error { return d.Driver.Raise(ctx, queue, floor) })
}

func (d steady) Resize(ctx context.Context, queue string, capacity int64) error {
	return steadily(ctx, func(bool) error { return d.Driver.Resize(ctx, queue, capacity) })
}

type steadySession struct{ driver.Session }

func (s steadySession) Join(ctx context.Context, r driver.Request) (t driver.Ticket, err error) {
	tickets().note(sent, r.ID)
	err = steadily(ctx, func(again bool) (err error) {
		r.Retry = r.Retry || again
		t, err = s.Session.Join(ctx, r)
		if r.NoWait && tickets().removed(again, r.ID, err) {
			err = driver.ErrBusy // it had to wait, and has left
		}
		return err
	})
	return t, err
}

func (s steadySession) Await(ctx context.Context, t driver.Ticket) (got driver.Ticket, err error) {
	err = steadily(ctx, func(bool) (err error) { got, err = s.Session.Await(ctx, t); return err })
	return got, err
}

func (s steadySession) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return steadily(ctx, func(bool) error { return s.Session.Shrink(ctx, t, units) })
}

func (s steadySession) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	return steadily(ctx, func(bool) error { return s.Session.Keep(ctx, t, d) })
}

func (s steadySession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return steadily(ctx, func(again bool) error { return leaving(again, t.ID, s.Session.Leave(ctx, t, clean)) })
}

func (s steadySession) Renew(ctx context.Context, known []driver.Ticket) (r []driver.Renewed, err error) {
	err = steadily(ctx, func(bool) (err error) { r, err = s.Session.Renew(ctx, known); return err })
	return r, err
}

func (s steadySession) Signals(ctx context.Context) (got driver.Signal, err error) {
	err = steadily(ctx, func(bool) (err error) { got, err = s.Session.Signals(ctx); return err })
	return got, err
}

func (s steadySession) Close(ctx context.Context) error {
	return steadily(ctx, func(again bool) error {
		err := s.Session.Close(ctx)
		if again && errors.Is(err, driver.ErrSession) {
			return nil
		}
		return err
	})
}

// a flaky session loses the answer to the first try of each call.
type flakySession struct {
	driver.Session
	err  error
	lost bool
}

func (s *flakySession) answer() error {
	if s.lost = !s.lost; s.lost {
		return errors.New("the connection was lost")
	}
	return s.err
}

func (s *flakySession) Join(context.Context, driver.Request) (driver.Ticket, error) {
	return driver.Ticket{}, s.answer()
}
func (s *flakySession) Leave(context.Context, driver.Ticket, bool) error { return s.answer() }

type flakyDriver struct {
	driver.Driver
	s *flakySession
}

func (d flakyDriver) Ask(context.Context, string, string, driver.Demand) error { return d.s.answer() }

// Promise: what the conformance suite is told while servers come and go is what the driver
// says. A refusal is forgiven only if the first try, whose answer was lost, may have worked.
func TestSteadyDriversForgiveNoMoreThanTheyMust(t *testing.T) {
	t.Setenv(ledgerVariable, t.TempDir())
	flaky := &flakySession{err: driver.ErrGone}
	s, d := steadySession{flaky}, steady{flakyDriver{s: flaky}}
	is := func(about string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, not %v", about, err, want)
		}
	}
	ctx := limited(t)
	leave := func(id string) error { return s.Leave(ctx, driver.Ticket{ID: id}, true) }
	ask := func(id string, what driver.Demand) error { return d.Ask(ctx, "q", id, what) }
	join := func(id string, noWait bool) error {
		_, err := s.Join(ctx, driver.Request{ID: id, NoWait: noWait})
		return err
	}
	never := someID()
	is("a Leave of a ticket that never was", leave(never), driver.ErrGone)
	is("a Join that comes after its Leave", join(never, false), driver.ErrGone)
	is("a Join with NoWait that comes after its Leave", join(never, true), driver.ErrGone)
	for _, what := range []driver.Demand{driver.Revoke, driver.Evict, driver.Force} {
		is("a demand for a ticket that never was", ask(someID(), what), driver.ErrGone)
	}
	is("a Join with NoWait that had to wait", join(someID(), true), driver.ErrBusy)

	for _, remove := range []func(id string) error{
		leave,
		func(id string) error { return ask(id, driver.Force) },
	} {
		flaky.err = nil
		id := someID()
		is("a Join", join(id, false), nil)
		flaky.err = driver.ErrGone
		is("an Evict", ask(id, driver.Evict), nil)
		is("a Revoke", ask(id, driver.Revoke), driver.ErrGone)
		is("what removes a ticket", remove(id), nil)
		is("a Leave after that", leave(id), driver.ErrGone)
		is("a Force after that", ask(id, driver.Force), driver.ErrGone)
		is("an Evict after that", ask(id, driver.Evict), driver.ErrGone)
		is("a Join after that", join(id, false), driver.ErrGone)
	}
}
