package memlock

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
)

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	w := d.world
	return watch(ctx, d, "Follow", w.follows, queue, func() (q driver.Queue, news bool) {
		if news = w.version(queue) != after; news {
			q = w.snapshot(queue)
		}
		return q, news
	})
}

// version names the state of a queue. All empty states are the same, so that
// nothing is kept of a queue that was left.
func (w *World) version(name string) string {
	if q := w.queues[name]; q != nil && (q.count > 0 || q.resized) {
		return strconv.FormatUint(q.version, 36)
	}
	return "empty"
}

func (w *World) snapshot(name string) driver.Queue {
	s := driver.Queue{Name: name, Version: w.version(name), Read: w.now}
	q := w.queues[name]
	if q == nil || q.count == 0 && !q.resized {
		return s
	}
	s.Kind, s.Capacity, s.Resized = q.kind, q.capacity, q.resized
	s.Members = make([]driver.Member, 0, q.count)
	wall := time.Now()
	for t := q.tickets.first; t != nil; t = q.tickets.next(t) {
		s.Members = append(s.Members, driver.Member{
			ID:    t.text,
			Owner: t.owner.owner,
			Note:  slices.Clone(t.note),
			Units: t.units,
			Held:  t.held,
			Token: t.token,
			Since: wall.Add(-w.now.Sub(t.since)),
			Left:  t.end.Sub(w.now),
			Fixed: t.fixed != nil,
		})
	}
	return s
}

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	w := d.world
	return inOrder(ctx, d, "Queues", prefix, w.queues, func(name string, q *queue) (driver.Queue, bool) {
		return w.snapshot(name), q.count > 0
	})
}
