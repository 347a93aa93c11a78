package memlock

import (
	"slices"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// ticket is the row of a ticket, and what memlock keeps beside it.
type ticket struct {
	rows.Ticket
	queue       string
	owner       *session
	reportDeath bool   // Inherited was asked for
	told        uint8  // demands that are to be signalled, or need not be any more, a bit each
	round       uint64 // of the last Renew that named it
	wakeup      bell   // of Await
}

func own(row *rows.Ticket) *ticket { return row.Own.(*ticket) }

func (t *ticket) report() driver.Ticket {
	r := driver.Ticket{ID: t.ID, Queue: t.queue, Held: t.Held}
	if t.Held {
		r.Token, r.Inherited, r.Proof = t.Token, t.Inherited && t.reportDeath, t.proof()
	}
	return r
}

// proof is when its end was set last.
func (t *ticket) proof() driver.Instant {
	if t.Fixed {
		return instant(t.End.Add(-t.Hold))
	}
	return instant(t.End.Add(-t.Session.TTL))
}

// departed is what is remembered of an ID.
type departed struct {
	came bool // its Join has arrived; else it was left before
}

// memory is what rows needs of a world.
type memory struct{ *World }

// New takes a used ticket if there is one.
func (w memory) New() *rows.Ticket {
	n := len(w.spare)
	if n == 0 {
		t := &ticket{}
		t.Own = t
		return &t.Ticket
	}
	t := w.spare[n-1]
	w.spare = w.spare[:n-1]
	return &t.Ticket
}

func (w memory) Find(queue, id string) *rows.Ticket {
	if t := w.tickets[id]; t != nil && t.queue == queue {
		return &t.Ticket
	}
	return nil
}

func (w memory) Last() *uint64 { return &w.token }

func (w memory) Told(row *rows.Ticket, what exchange.EventType, demand driver.Demand) {
	t := own(row)
	switch what {
	case exchange.Granted:
		w.wake(t) // it may have a fixed end
		w.granted = append(w.granted, t)
		t.wakeup.ring()
	case exchange.Demanded:
		w.wake(t) // of one that is evicted
		w.tell(t, demand)
	case exchange.Removed:
		w.tell(t, driver.Evict)
	}
}

// Left removes all that reminds of a ticket, except that its ID was used.
func (w memory) Left(row *rows.Ticket) {
	t := own(row)
	t.wakeup.ring()
	if s := t.owner; t.told&(1<<driver.Wanted) != 0 {
		s.signals = slices.DeleteFunc(s.signals, func(g driver.Signal) bool { return g.ID == t.ID && g.Demand == driver.Wanted })
	}
	delete(w.tickets, t.ID)
	w.left.put(w.now, t.ID, departed{came: true})
	*t = ticket{}
	t.Own = t
	w.spare = append(w.spare, t)
}
