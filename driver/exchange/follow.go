package exchange

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/follow"
)

// Follow waits for another state of a queue.
func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Queue{}, err
	}
	read := limited(ctx, d, func(ctx context.Context, f Follower) (driver.Queue, error) {
		sent := d.now()
		r, err := call(ctx, d, func(ctx context.Context) (Snapshot, error) { return d.store.Read(ctx, queue, f) })
		return r.read(sent), err
	})
	if after == "" || !d.traits.Listens {
		q, err := read(Follower{})
		if err == nil && q.Version != after || driver.IsPermanent(err) {
			return q, err
		}
	}
	defer d.expectEvents()()
	return d.topics.Queue(ctx, queue, after, func(t *follow.Topic) (driver.Queue, error) { return read(d.follower(t)) })
}

// Watch waits for another version of a cell.
func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	load := limited(ctx, d, func(ctx context.Context, f Follower) (driver.Cell, error) { return d.load(ctx, name, f) })
	c, err := load(Follower{})
	if err == nil && c.Version != after || driver.IsPermanent(err) {
		return c, err
	}
	defer d.expectEvents()()
	return d.topics.Cell(ctx, name, after, func(t *follow.Topic) (driver.Cell, error) { return load(d.follower(t)) })
}

func (d *Driver) follower(t *follow.Topic) Follower { return Follower{d.mailbox, t.Number} }

// limited bounds each read of a call that waits: its connection may lead nowhere, and that of the next read
// need not. The bound is one TTL at most, and grows with each read that was given up, since the backend may
// only be slow.
func limited[T any](ctx context.Context, d *Driver, read func(context.Context, Follower) (T, error)) func(Follower) (T, error) {
	limit := d.listener.lookTimeout()
	return func(f Follower) (T, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		got, err := read(ctx, f)
		if ctx.Err() != nil {
			limit += time.Second
		}
		return got, err
	}
}

// read completes a snapshot that was asked for at that time.
func (r Snapshot) read(sent driver.Instant) driver.Queue {
	q := r.Queue
	q.Read = sent
	if q.Version == "" {
		q.Version = follow.Version(q, func(i int) time.Time { return r.At.Add(q.Members[i].Left) })
	}
	return q
}
