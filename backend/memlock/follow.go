package memlock

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

type follow struct{ queue, after string }

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	d.listen(d.world.follows, queue)
	defer d.unlisten(d.world.follows, queue)
	return wait(ctx, d, "Follow", d, (*Driver).follow, follow{queue, after})
}

func (d *Driver) follow(a follow) (driver.Queue, *bell, error) {
	if d.cut {
		return driver.Queue{}, &d.healed, nil
	}
	d.exchanges++
	w := d.world
	if w.version(a.queue) != a.after {
		return w.snapshot(a.queue), nil, nil
	}
	return driver.Queue{}, &w.follows[a.queue].bell, nil
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
	return func(yield func(driver.Queue, error) bool) {
		all, err := call(ctx, d, "Queues", d, (*Driver).queues, prefix)
		if err != nil {
			yield(driver.Queue{}, err)
			return
		}
		for _, q := range all {
			if !yield(q, nil) {
				return
			}
		}
	}
}

func (d *Driver) queues(prefix string) ([]driver.Queue, error) {
	var all []driver.Queue
	for name, q := range d.world.queues {
		if q.count > 0 && strings.HasPrefix(name, prefix) {
			all = append(all, d.world.snapshot(name))
		}
	}
	slices.SortFunc(all, func(a, b driver.Queue) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
