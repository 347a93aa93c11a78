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
	var limit readLimit
	if after == "" || !d.traits.Listens {
		q, err := limited(ctx, &limit, func(ctx context.Context) (driver.Queue, error) { return d.read(ctx, queue, Follower{}) })
		if err == nil && q.Version != after || driver.IsPermanent(err) {
			return q, err
		}
	}
	defer d.expectEvents()()
	return d.topics.Queue(ctx, queue, after, func(t *follow.Topic) (driver.Queue, error) {
		return limited(ctx, &limit, func(ctx context.Context) (driver.Queue, error) { return d.read(ctx, queue, d.follower(t)) })
	})
}

func (d *Driver) follower(t *follow.Topic) Follower { return Follower{d.mailbox, t.Number} }

// readLimit bounds each read of a call that waits: its connection may lead nowhere, and that of
// the next read need not. It grows with each read that was given up, since the backend may only
// be slow.
type readLimit time.Duration

func limited[T any](ctx context.Context, limit *readLimit, read func(context.Context) (T, error)) (T, error) {
	*limit = max(*limit, readLimit(lookTimeout))
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*limit))
	defer cancel()
	got, err := read(ctx)
	if ctx.Err() != nil {
		*limit += readLimit(time.Second)
	}
	return got, err
}

func (d *Driver) read(ctx context.Context, queue string, f Follower) (driver.Queue, error) {
	sent := d.now()
	r, err := call(ctx, d, func(ctx context.Context) (Snapshot, error) { return d.store.Read(ctx, queue, f) })
	return r.read(sent), err
}

// read completes a snapshot that was asked for at that time.
func (r Snapshot) read(sent driver.Instant) driver.Queue {
	q := r.Queue
	q.Read = sent
	if q.Version == "" {
		q.Version = follow.Version(q, r.At)
	}
	return q
}
