package sqlqueue

import (
	"context"

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
	q, err := d.read(ctx, queue, "")
	if err == nil && q.Version != after || driver.IsPermanent(err) {
		return q, err
	}
	defer d.attend()()
	return d.topics.Queue(ctx, queue, after, func(*follow.Topic) (driver.Queue, error) {
		return d.read(ctx, queue, d.channel)
	})
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
