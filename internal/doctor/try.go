package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Try is TryAs with a mailbox and a name of its own.
func Try(ctx context.Context, s exchange.Store) error {
	_, err := TryAs(ctx, s, exchange.NewMailbox(), "")
	return err
}

// TryAs makes the exchanges of a lock and of a value once, as programs do, both with a name behind the prefix that ends
// with /value and is used by nobody else. The error is that of the first one that fails: a right is missing, the server
// is read-only, its memory or its disk is full.
func TryAs(ctx context.Context, s exchange.Store, mailbox, prefix string) (name string, err error) {
	name = prefix + "doctor/" + strings.ToLower(exchange.NewID()) + "/value"
	session := exchange.Session{ID: exchange.NewID(), TTL: 10 * time.Second, Owner: "doctor", Mailbox: mailbox}
	ref := func() exchange.Ref { return exchange.Ref{Queue: name, ID: exchange.NewID()} }
	holder, waiter, again := ref(), ref(), ref()
	join := func(ref *exchange.Ref) error {
		a := exchange.Alone(ctx, s, &exchange.Join{
			Request: driver.Request{ID: ref.ID, Queue: ref.Queue, Kind: driver.Mutex, Units: 1, Capacity: 1, Retry: ref == &waiter},
			Session: session, Number: exchange.NewNumber(),
		})
		ref.Tag = a.Tag
		return a.Err
	}
	leave := func(ref exchange.Ref) error {
		err := exchange.Alone(ctx, s, &exchange.Leave{Ref: ref, Session: session, Clean: true}).Err
		if errors.Is(err, driver.ErrGone) { // its time has passed
			err = nil
		}
		return err
	}
	follower := exchange.Follower{Mailbox: session.Mailbox, Topic: 1}
	value := driver.Cell{}
	swap := func(c driver.Swap) (err error) {
		c.ID, c.Name, c.Version = exchange.NewID(), name, value.Version
		value, err = s.Swap(ctx, c)
		return err
	}
	err = steps{
		{"begin a session", func() error {
			begun, err := s.Begin(ctx, session)
			session.TTL = cmp.Or(begun.TTL, session.TTL)
			return err
		}},
		{"follow a lock", func() error { _, err := s.Read(ctx, holder.Queue, follower); return err }},
		{"acquire a lock", func() error {
			err := join(&holder)
			if c, ok := s.(exchange.Confirmer); ok && err == nil {
				_, err = c.Confirm(ctx, session, holder, false)
			}
			return err
		}},
		{"wait for a lock", func() error { return join(&waiter) }},
		{"renew a lock", func() error { _, err := s.Renew(ctx, session, []exchange.Ref{holder, waiter}, 2); return err }},
		{"give back permits", func() error {
			return exchange.Alone(ctx, s, &exchange.Shrink{Ref: holder, Session: session, Units: 1}).Err
		}},
		{"bound a lock", func() error {
			holder.Tag = 0
			return exchange.Alone(ctx, s, &exchange.Keep{Ref: holder, Session: session, For: time.Millisecond}).Err
		}},
		{"take a lock from the dead", func() error { time.Sleep(2 * time.Millisecond); _, err := s.Settle(ctx, holder.Queue); return err }},
		{"release a lock", func() error { return cmp.Or(leave(holder), leave(waiter)) }},
		{"acquire a lock once more", func() error { return join(&again) }},
		{"release a lock once more", func() error { return leave(again) }},
		{"follow a value", func() (err error) { value, err = s.Load(ctx, name, follower); return err }},
		{"change a value", func() error { return swap(driver.Swap{Value: []byte("-")}) }},
		{"remove a value", func() error { return swap(driver.Swap{Delete: true}) }},
	}.take(s.Explain)
	if err != nil {
		_, _ = s.End(ctx, session, []exchange.Leave{{Ref: waiter, Session: session, Waited: true}, {Ref: holder, Session: session}})
		return name, err
	}
	return name, steps{{"end a session", func() error { _, err := s.End(ctx, session, nil); return err }}}.take(s.Explain)
}

// Steps are made one after the other, until one fails.
type steps []struct {
	what string
	make func() error
}

func (all steps) take(explain func(error) error) error {
	for _, s := range all {
		if err := s.make(); err != nil {
			return fmt.Errorf("cannot %s: %w", s.what, explain(err))
		}
	}
	return nil
}
