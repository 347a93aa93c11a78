package exchange

import (
	"context"
	"iter"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/clocktoken"
)

// Ask sends a demand to the holder of a ticket, or removes the ticket.
func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	unsettled, err := call(ctx, d, func(ctx context.Context) (bool, error) { return d.store.Ask(ctx, queue, id, what) })
	if unsettled {
		d.settle(queue)
	}
	return err
}

// Raise makes later tokens larger.
func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if all, ok := d.store.(Raiser); ok && queue == "" {
		return do(ctx, d, func(ctx context.Context) error { return all.RaiseAll(ctx, floor) })
	}
	if queue == "" {
		return do(ctx, d, func(ctx context.Context) error { return clocktoken.Pass(ctx, floor, d.store.Clock) })
	}
	return do(ctx, d, func(ctx context.Context) error { return d.store.Raise(ctx, queue, floor) })
}

// Queues lists queues, one page after the other.
func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		type page struct {
			all  []Snapshot
			next string
		}
		for from := ""; ; {
			sent := d.now()
			p, err := call(ctx, d, func(ctx context.Context) (p page, err error) {
				p.all, p.next, err = d.store.List(ctx, prefix, from)
				return p, err
			})
			if err != nil {
				yield(driver.Queue{}, err)
				return
			}
			for _, r := range p.all {
				if len(r.Members) > 0 && !yield(r.read(sent), nil) {
					return
				}
			}
			if from = p.next; from == "" {
				return
			}
		}
	}
}

// Cells lists cells, one page after the other.
func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		type page struct {
			names []string
			next  string
		}
		for from := ""; ; {
			p, err := call(ctx, d, func(ctx context.Context) (p page, err error) {
				p.names, p.next, err = d.store.Cells(ctx, prefix, from)
				return p, err
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, name := range p.names {
				if !yield(name, nil) {
					return
				}
			}
			if from = p.next; from == "" {
				return
			}
		}
	}
}
