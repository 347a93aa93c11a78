package memlock

import (
	"errors"
	"maps"

	"github.com/interlock-go/interlock/driver"
)

// queue keeps its tickets in the order of Join. Those that are held are always
// the first of them, so two pointers and one sum carry the rule: nothing is
// ever counted again.
type queue struct {
	name     string
	kind     driver.Kind
	capacity int64

	tickets list
	count   int
	used    int64   // units of the held tickets
	waiting *ticket // the first that waits
	untold  *ticket // the first whose holder was not told that somebody waits
	version uint64

	dirty bool   // the last exclusive holder did not leave cleanly
	floor uint64 // the last token of this queue, if Raise has been called
	spare bool   // nothing about it must be remembered

	resized bool // the capacity is that of Resize, and is not forgotten
}

// maxSpare is how many queues are kept that need not be, so that the name of a
// lock that is taken again and again is not checked and stored each time.
const maxSpare = 1024

// queueFor returns the queue that a request wants.
func (w *World) queueFor(r *driver.Request) (*queue, error) {
	q := w.queues[r.Queue]
	if q == nil {
		q = w.newQueue(r.Queue)
	}
	if q.count == 0 && !q.resized {
		w.need(q)
		q.kind, q.capacity = r.Kind, r.Capacity
	} else if q.kind != r.Kind || q.capacity != r.Capacity {
		return nil, driver.ErrMismatch
	}
	return q, nil
}

func (w *World) newQueue(name string) *queue {
	q := &queue{name: name}
	w.queues[name] = q
	return q
}

// tidy forgets empty queues when there are many, unless something about them
// must be remembered.
func (w *World) tidy(q *queue) {
	if q.count > 0 || q.dirty || q.floor > 0 || q.resized || q.spare {
		return
	}
	q.spare = true
	if w.spareQueues++; w.spareQueues <= maxSpare {
		return
	}
	maps.DeleteFunc(w.queues, func(_ string, q *queue) bool { return q.spare })
	w.spareQueues = 0
}

// need is the opposite of tidy.
func (w *World) need(q *queue) {
	if q.spare {
		q.spare = false
		w.spareQueues--
	}
}

func (w *World) changed(q *queue) {
	w.changes++
	q.version = w.changes
	w.follows.ring(q.name)
}

var errTokens = driver.Permanent(errors.New("the tokens of this queue are used up"))

// nextToken counts all queues together, so that nothing is kept for an empty
// one; a queue that was raised counts on from its own floor.
func (w *World) nextToken(q *queue) uint64 {
	if q.floor > 0 {
		q.floor = max(q.floor, w.token) + 1
		return q.floor
	}
	w.token++
	return w.token
}

// tokensLeft reports whether there is a token left for everybody in the queue and
// one more.
func (w *World) tokensLeft(q *queue) bool {
	return max(q.floor, w.token)+uint64(q.count)+1 < driver.MaxToken
}

// append puts a new ticket at the end.
func (w *World) append(q *queue, t *ticket) {
	q.tickets.push(t)
	q.count++
	if q.waiting == nil {
		q.waiting = t
	}
	if q.untold == nil {
		q.untold = t
	}
	w.grant(q)
}

// grant lets in whoever fits now, in order.
func (w *World) grant(q *queue) {
	for q.waiting != nil {
		t := q.waiting
		if t.end <= w.now || t.owner.over { // it must not hold anything any more
			w.unlink(t)
			continue
		}
		if t.units > q.capacity-q.used {
			break
		}
		q.waiting = q.tickets.next(t)
		q.used += t.units
		t.held = true
		t.token = w.nextToken(q)
		t.inherited = q.dirty && t.reportDeath
		if t.hold > 0 {
			w.fix(t, t.hold)
		}
		t.wakeup.ring()
	}
	if q.waiting != nil {
		for q.untold != q.waiting {
			w.tell(q.untold, driver.Wanted)
			q.untold = q.tickets.next(q.untold)
		}
	}
	w.changed(q)
}

// exclusive: a ticket that is held, and no other beside it.
func (q *queue) exclusive(t *ticket) bool { return t.units >= q.capacity && t.units == q.used }

// shrink leaves a ticket fewer units.
func (w *World) shrink(t *ticket, units int64) {
	q := t.queue
	if t.held {
		if q.exclusive(t) {
			q.dirty = false // the exclusive hold has ended well
		}
		q.used -= t.units - units
	}
	t.units = units
	w.grant(q)
}

// leave takes a ticket out and grants whoever is next.
func (w *World) leave(t *ticket, clean bool) {
	q := t.queue
	if t.held && q.exclusive(t) {
		q.dirty = !clean
	}
	w.unlink(t)
	w.grant(q)
	w.tidy(q)
}

// unlink removes all that reminds of a ticket, except that its ID was used.
func (w *World) unlink(t *ticket) {
	q, s := t.queue, t.owner
	if q.waiting == t {
		q.waiting = q.tickets.next(t)
	}
	if q.untold == t {
		q.untold = q.tickets.next(t)
	}
	q.tickets.remove(t)
	q.count--
	if t.held {
		q.used -= t.units
	}
	if t.tell != 0 {
		s.signals.remove(t)
	}
	if t.fixed != nil {
		w.unset(t.fixed)
	} else {
		s.tickets.remove(t)
	}
	t.wakeup.ring()
	delete(w.tickets, t.id)
	w.left.put(w.now, t.id, departed{came: true})
	w.freeTicket(t)
}
