package exchange

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/clocktoken"
)

// Ask sends a demand to the holder of a ticket, or removes the ticket.
func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return d.change(ctx, queue, func(ctx context.Context) (bool, error) { return d.store.Ask(ctx, queue, id, what) })
}

// Raise makes later tokens larger.
func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	if all, ok := d.store.(Raiser); ok && queue == "" {
		return do(ctx, d, func(ctx context.Context) error { return all.RaiseAll(ctx, floor) })
	}
	if queue == "" {
		return do(ctx, d, func(ctx context.Context) error { return clocktoken.Pass(ctx, floor, d.store.Clock) })
	}
	return do(ctx, d, func(ctx context.Context) error { return d.store.Raise(ctx, queue, floor) })
}

// Resize gives a queue a capacity that stays.
func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	r, ok := d.store.(Resizer)
	if !ok {
		return driver.Permanent(fmt.Errorf("this backend cannot change the number of permits of a semaphore: %w", errors.ErrUnsupported))
	}
	return d.change(ctx, queue, func(ctx context.Context) (bool, error) { return r.Resize(ctx, queue, capacity) })
}

// Queues lists queues, one page after the other.
func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return pages(ctx, d, prefix, d.store.List, func(r Snapshot, sent driver.Instant) (driver.Queue, bool) {
		return r.read(sent), len(r.Members) > 0
	})
}

// Cells lists cells, one page after the other.
func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return pages(ctx, d, prefix, d.store.Cells, func(name string, _ driver.Instant) (string, bool) { return name, true })
}

// pages lists what the pages have. Show says what a caller is told of one, on a page that was asked for at
// that time, and whether it is listed. An error comes last: a page may have left out what cannot be read.
func pages[T, U any](ctx context.Context, d *Driver, prefix string, list func(ctx context.Context, prefix, from string) ([]T, string, error), show func(one T, sent driver.Instant) (U, bool)) iter.Seq2[U, error] {
	type page struct {
		all  []T
		next string
	}
	return func(yield func(U, error) bool) {
		var left error // what was left out, which is said last
		for from, first := "", true; first || from != ""; first = false {
			sent, begin := d.now(), from // the call may outlast its caller
			p, err := call(ctx, d, func(ctx context.Context) (p page, err error) {
				p.all, p.next, err = list(ctx, prefix, begin)
				return p, err
			})
			if left == nil {
				left = err
			}
			for _, one := range p.all {
				if shown, listed := show(one, sent); listed && !yield(shown, nil) {
					return
				}
			}
			from = p.next
		}
		if left != nil {
			var none U
			yield(none, left)
		}
	}
}
