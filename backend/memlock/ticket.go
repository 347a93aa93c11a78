package memlock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

type ticket struct {
	id    id
	text  string // id as the caller wrote it
	queue *queue
	owner *session
	note  []byte
	units int64
	hold  time.Duration
	since driver.Instant

	reportDeath bool // Inherited was asked for
	held        bool
	inherited   bool
	evicted     bool
	revoked     bool
	token       uint64
	proof       driver.Instant // the last renewal; of a fixed end, when it was set
	end         driver.Instant // leaves then
	fixed       *alarm         // not nil: has a fixed end

	links  [3]link
	tell   uint8  // demands to be signalled, a bit each
	round  uint64 // of the last Renew that named it
	wakeup bell   // of Await
}

func (t *ticket) report() driver.Ticket {
	r := driver.Ticket{ID: t.text, Queue: t.queue.name, Held: t.held}
	if t.held {
		r.Token, r.Inherited, r.Proof = t.token, t.inherited, t.proof
	}
	return r
}

// fix gives a held ticket an end of its own, in from now.
func (w *World) fix(t *ticket, in time.Duration) {
	if t.fixed == nil {
		t.owner.tickets.remove(t)
		t.fixed = &alarm{ticket: t}
	}
	t.proof = w.now
	t.end = w.now.Add(min(in, maxHold))
	w.set(t.fixed, t.end)
}

// departed is what is remembered of an ID.
type departed struct {
	came bool // its Join has arrived; else it was left before
}

// maxHold keeps the sum of an instant and a duration in range.
const maxHold = 100 * 365 * 24 * time.Hour

// A ticket is a member of up to three lists at once.
const (
	inQueue = iota
	inSession
	inSignals
)

type link struct{ prev, next *ticket }

// list is a doubly linked list through one of the links of its tickets.
type list struct {
	kind        int
	first, last *ticket
}

func (l *list) push(t *ticket) {
	t.links[l.kind] = link{prev: l.last}
	if l.last == nil {
		l.first = t
	} else {
		l.last.links[l.kind].next = t
	}
	l.last = t
}

func (l *list) remove(t *ticket) {
	k := t.links[l.kind]
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.links[l.kind].next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.links[l.kind].prev = k.prev
	}
	t.links[l.kind] = link{}
}

func (l *list) next(t *ticket) *ticket { return t.links[l.kind].next }

// newTicket takes a used ticket if there is one.
func (w *World) newTicket() *ticket {
	t := w.spareTickets
	if t == nil {
		return &ticket{}
	}
	w.spareTickets = t.links[inQueue].next
	t.links[inQueue].next = nil
	return t
}

func (w *World) freeTicket(t *ticket) {
	*t = ticket{}
	t.links[inQueue].next = w.spareTickets
	w.spareTickets = t
}
