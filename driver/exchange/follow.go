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
	if err := driver.CheckName(queue); err != nil {
		return driver.Queue{}, err
	}
	var p patience
	q, err := patiently(ctx, &p, func(ctx context.Context) (driver.Queue, error) { return d.read(ctx, queue, "") })
	if err == nil && q.Version != after || driver.IsPermanent(err) {
		return q, err
	}
	defer d.attend()()
	return d.topics.Queue(ctx, queue, after, func(*follow.Topic) (driver.Queue, error) {
		return patiently(ctx, &p, func(ctx context.Context) (driver.Queue, error) { return d.read(ctx, queue, d.channel) })
	})
}

// patience bounds each read of a call that waits: a connection may lead nowhere, and the
// next one need not. It grows a little with every read that was given up, since it may
// also be that the server is slow.
type patience time.Duration

func patiently[T any](ctx context.Context, p *patience, read func(context.Context) (T, error)) (T, error) {
	*p = max(*p, patience(lookTimeout))
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*p))
	defer cancel()
	got, err := read(ctx)
	if ctx.Err() != nil {
		*p += patience(time.Second)
	}
	return got, err
}

func (d *Driver) read(ctx context.Context, queue, channel string) (driver.Queue, error) {
	sent := driver.Now()
	r, err := ask(ctx, d, func(ctx context.Context) (Reading, error) { return d.store.Read(ctx, queue, channel) })
	return r.at(sent), err
}

// at completes what was read.
func (r Reading) at(sent driver.Instant) driver.Queue {
	q := r.Queue
	q.Read = sent
	q.Version = follow.Version(q, r.At)
	return q
}
