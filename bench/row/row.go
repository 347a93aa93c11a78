// Package row locks as most libraries on SQL databases do: by a row with an end,
// which whoever finds it busy asks for again and again.
package row

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
)

// Table has a row for each lock. Each method is one transaction of its own and
// reports whether the row was the owner's to change.
type Table interface {
	// Take inserts the row, or takes it over if its end has come.
	Take(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)
	Extend(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)
	Delete(ctx context.Context, name, owner string) (bool, error)
	Close() error
}

var (
	errBusy = errors.New("the lock is taken")
	errGone = errors.New("the lock is not held any more")
)

// Open makes clients that ask for a busy lock again that often; 0: they give up.
func Open(table func(ctx context.Context) (Table, error), every time.Duration) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, o workload.Options) (workload.Client, error) {
		t, err := table(ctx)
		if err != nil {
			return nil, err
		}
		return client{t, o.TTL, every}, nil
	}
}

type client struct {
	Table
	ttl, every time.Duration
}

// Lock gives no context that ends to the database, which would make the client
// work harder.
func (c client) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		owner := rand.Text()
		for {
			ok, err := c.Take(context.Background(), name, owner, c.ttl)
			if err != nil {
				return nil, err
			}
			if ok {
				return held{c, name, owner}, nil
			}
			if c.every == 0 {
				return nil, errBusy
			}
			select {
			case <-time.After(c.every):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

type held struct {
	c           client
	name, owner string
}

func (h held) Release() error {
	return gone(h.c.Delete(context.Background(), h.name, h.owner))
}

func (h held) Renew(ctx context.Context) error {
	return gone(h.c.Extend(ctx, h.name, h.owner, h.c.ttl))
}

func gone(ok bool, err error) error {
	if err == nil && !ok {
		return errGone
	}
	return err
}
