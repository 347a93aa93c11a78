// Package ours makes contenders of Interlock itself, on whatever backend.
package ours

import (
	"context"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/bench/workload"
)

// The contender with no options, and the one in which every waiter has a ticket.
const (
	Default = "interlock"
	Strict  = "interlock, StrictOrder"
)

// All are the public API, with and without options, and the driver beneath it.
func All(url string) []workload.Contender {
	return AllAt(func() string { return url })
}

// AllAt asks for the URL of each client.
func AllAt(url func() string) []workload.Contender {
	return []workload.Contender{
		Library(url, Default, "Acquire, Release", "W1 W2 W3 W4 W4-hold W5 W8 W9"),
		Library(url, Strict, "no hand-over inside the process", "W1 W2 W3 W4 W5", interlock.StrictOrder()),
		Library(url, "interlock, Sticky", "keeps the lock until another client wants it", "W1 W2 W3 W4", interlock.Sticky()),
		{
			Name: "interlock, driver", Settings: "Join, Await, Leave; no heartbeat; only Await can be cancelled", Ours: true,
			Takes: strings.Fields("W1 W2 W3 W4"),
			Open:  func(ctx context.Context, _ workload.Options) (workload.Client, error) { return openDriver(ctx, url()) },
		},
	}
}

// Library is the public API with some options.
func Library(url func() string, name, settings, takes string, opts ...interlock.Option) workload.Contender {
	return workload.Contender{
		Name: name, Settings: settings, Ours: true, Takes: strings.Fields(takes),
		Open: func(ctx context.Context, o workload.Options) (workload.Client, error) {
			c, err := interlock.Open(ctx, url(), interlock.TTL(o.TTL))
			if err != nil {
				return nil, err
			}
			return client{c, opts}, nil
		},
	}
}

type client struct {
	*interlock.Client
	opts []interlock.Option
}

func (c client) Lock(name string) workload.Lock {
	l := c.Mutex(name, c.opts...)
	return func(ctx context.Context) (workload.Held, error) {
		got, err := l.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lease{got}, nil
	}
}

// Waiting lists the tickets that wait, in order.
func (c client) Waiting(ctx context.Context, name string) (ids []string, err error) {
	for q, err := range c.Follow(ctx, name) {
		if err != nil {
			return nil, err
		}
		for _, m := range q.Waiters {
			ids = append(ids, m.ID)
		}
		return ids, nil
	}
	return nil, ctx.Err()
}

type lease struct{ *interlock.Lease }

// Ticket is what others see of the lease.
func (l lease) Ticket() string {
	id, _, _ := strings.Cut(l.ID(), ".")
	return id
}
