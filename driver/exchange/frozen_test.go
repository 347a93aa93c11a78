package exchange

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bubble"
)

// frozen is a store of which the first reads have no answer, and the others a late one.
type frozen struct {
	staged
	silent int64
	takes  time.Duration
	reads  atomic.Int64
}

func (f *frozen) answer(ctx context.Context) error {
	if f.reads.Add(1) <= f.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return backoff.Sleep(ctx, f.takes)
}

func (f *frozen) Read(ctx context.Context, queue, _ string) (Snapshot, error) {
	return Snapshot{Queue: driver.Queue{Name: queue, Kind: driver.Mutex, Capacity: 1}}, f.answer(ctx)
}

func (f *frozen) Load(ctx context.Context, _, _ string) (driver.Cell, error) {
	return driver.Cell{Version: 7}, f.answer(ctx)
}

func (*frozen) Listen(context.Context, string, func(), func(Event)) error {
	return errors.ErrUnsupported
}

// Promise: whoever follows a queue or watches a cell over a connection that leads nowhere
// tries another one, also if the server is slow to answer there.
func TestAReadWithoutAnAnswer(t *testing.T) {
	calls := map[string]func(context.Context, *Driver) error{
		"Follow": func(ctx context.Context, d *Driver) error {
			q, err := d.Follow(ctx, "q", "other")
			if err == nil && q.Name != "q" {
				t.Errorf("%+v", q)
			}
			return err
		},
		"Watch": func(ctx context.Context, d *Driver) error {
			c, err := d.Watch(ctx, "a/value", 6)
			if err == nil && c.Version != 7 {
				t.Errorf("%+v", c)
			}
			return err
		},
	}
	for name, call := range calls {
		for _, takes := range []time.Duration{0, 2 * lookTimeout} {
			bubble.Run(t, func(t *testing.T) {
				store := &frozen{silent: 3, takes: takes}
				d := New(store, NewMailbox())
				defer d.Close()
				began := time.Now()
				if err := call(t.Context(), d); err != nil || store.reads.Load() > 10 {
					t.Errorf("%s: after %d reads: %v", name, store.reads.Load(), err)
				}
				if took := time.Since(began); took > 30*lookTimeout {
					t.Errorf("%s: after %v", name, took)
				}
			})
		}
		bubble.Run(t, func(t *testing.T) {
			d := New(&frozen{silent: 1}, NewMailbox())
			defer d.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := call(ctx, d); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: the end of its context while it reads: %v", name, err)
			}
		})
	}
}
