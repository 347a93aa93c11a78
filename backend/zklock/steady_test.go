package zklock_test

import (
	"context"
	"errors"
	"iter"
	"sync"
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

// left are the IDs of tickets that are known to have left. Of others a repeated call
// cannot know whether it was its first try that took effect.
var left sync.Map

// leaving forgives that a ticket has gone if an earlier try may have done it.
func leaving(again bool, id string, err error) error {
	_, known := left.Load(id)
	if err == nil || errors.Is(err, driver.ErrGone) {
		left.Store(id, true)
	}
	if again && !known && errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

func (d steady) Open(ctx context.Context, o driver.SessionOptions) (s driver.Session, err error) {
	err = steadily(ctx, func(bool) (err error) { s, err = d.Driver.Open(ctx, o); return err })
	if err != nil {
		return nil, err
	}
	return steadySession{s}, nil
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

func (d steady) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return steadily(ctx, func(again bool) error {
		err := d.Driver.Ask(ctx, queue, id, what)
		if what != driver.Force {
			if again && what == driver.Evict && errors.Is(err, driver.ErrGone) {
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

type steadySession struct{ driver.Session }

func (s steadySession) Join(ctx context.Context, r driver.Request) (t driver.Ticket, err error) {
	err = steadily(ctx, func(again bool) (err error) {
		r.Retry = r.Retry || again
		t, err = s.Session.Join(ctx, r)
		if again && r.NoWait && errors.Is(err, driver.ErrGone) {
			return driver.ErrBusy // it had to wait, and has left
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
