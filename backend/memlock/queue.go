package memlock

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// change makes an exchange with a queue.
func (d *Driver) change(ctx context.Context, method, queue string, does func(*rows.Queue) error) error {
	return change(ctx, d, method, func() error { return d.world.exchange(queue, does) })
}

func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return d.change(ctx, "Ask", queue, func(q *rows.Queue) error { return q.Ask(id, what) })
}

func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	return d.change(ctx, "Resize", queue, func(q *rows.Queue) error { return q.Resize(capacity) })
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	if queue != "" {
		return d.change(ctx, "Raise", queue, func(q *rows.Queue) error { return q.Raise(floor) })
	}
	return change(ctx, d, "Raise", func() error {
		w := d.world
		if floor > w.token && floor+uint64(len(w.tickets))+1 >= driver.MaxToken {
			return exchange.ErrTokens
		}
		w.token = max(w.token, floor)
		return nil
	})
}

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	return watch(ctx, d, "Follow", d.world.follows, queue, func() (driver.Queue, bool) {
		q := d.world.read(queue)
		return q, q.Version != after
	})
}

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	w := d.world
	return inOrder(ctx, d, "Queues", prefix, w.queues, func(name string, _ *rows.Queue) (driver.Queue, bool) {
		q := w.read(name)
		return q, len(q.Members) > 0
	})
}

func (w *World) read(name string) driver.Queue {
	q := w.queue(name)
	rows.Begin(q, clock(w.now))
	r := q.Read(exchange.Follower{}).Queue
	r.Read = w.now
	wall := time.Now()
	for i := range r.Members {
		m := &r.Members[i]
		m.Note, m.Since = slices.Clone(m.Note), wall.Add(m.Since.Sub(q.Now))
	}
	return r
}
