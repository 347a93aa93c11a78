// Package exchangetest has a backend in memory behind a network that loses, delays, reorders and
// repeats, and crashes. Tests of package exchange use it. Its queues are the rows of package rows; it
// adds rows of sessions, which move the ends of their tickets.
//
// A [Fault] breaks one sentence of the contract. Tests show what goes wrong then.
package exchangetest

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// World is a backend in memory. Its stores are clients of it.
type World struct {
	mu       sync.Mutex
	queues   map[string]*rows.Queue
	cells    map[string]*rows.Cell
	sessions map[string]time.Time // when they end, by ID
	rowless  bool                 // they have no rows: see Rowless
	files    map[string]string    // which sessions live as long as, by ID
	strays   map[string]bool      // IDs of tickets
	copied   map[string]bool      // IDs of tickets that a replica has
	mail     map[string]*mailbox
	history  string
	floor    uint64 // of the tokens of all queues
	faults   []Fault
	network  Network
	stores   []*Store
}

// NewWorld makes an empty backend, with these faults.
func NewWorld(faults ...Fault) *World {
	return &World{
		queues: map[string]*rows.Queue{}, cells: map[string]*rows.Cell{}, sessions: map[string]time.Time{},
		files: map[string]string{}, strays: map[string]bool{}, copied: map[string]bool{}, mail: map[string]*mailbox{},
		history: "first", faults: faults,
	}
}

// row is a row of a table, which is made if it is missing.
func row[R any](table map[string]*R, name string, missing R) *R {
	if table[name] == nil {
		table[name] = &missing
	}
	return table[name]
}

// queue is the row of a queue. It is not settled.
func (w *World) queue(name string, now time.Time) *rows.Queue {
	q := row(w.queues, name, rows.Queue{Name: name})
	q.Exchange, q.Token = &rows.Exchange{Now: now}, max(q.Token, w.floor)
	for _, t := range q.Tickets {
		if !t.Fixed && w.dead(t.Session) {
			t.End = time.Time{}
		}
	}
	return q
}

// tickets are the tickets of a session without a fixed end, with their queues.
func (w *World) tickets(session string) iter.Seq2[*rows.Queue, *rows.Ticket] {
	return func(yield func(*rows.Queue, *rows.Ticket) bool) {
		for _, q := range w.queues {
			for _, t := range q.Tickets {
				if t.Session.ID == session && !t.Fixed && !yield(q, t) {
					return
				}
			}
		}
	}
}

// alive says that a session is over, if an exchange is for one.
func (w *World) alive(o exchange.Session, now time.Time) error {
	if o.ID != "" && !w.rowless && !w.sessions[o.ID].After(now) {
		return driver.ErrSession
	}
	return nil
}

// hasExpired reports whether there are tickets to be taken out.
func hasExpired(q *rows.Queue) bool {
	return slices.ContainsFunc(q.Tickets, func(t *rows.Ticket) bool { return !t.End.After(q.Now) })
}

// effect is what an exchange does with a queue that is settled.
type effect = func(*rows.Queue) error

// exchange makes an exchange with a queue for a session. The queue is settled before and after that, unless a
// fault withholds the grants.
func (w *World) exchange(o exchange.Session, name string, now time.Time, withholds bool, does effect) error {
	if err := w.alive(o, now); err != nil {
		return err
	}
	q := w.queue(name, now)
	first := firstWaiter(q)
	for _, t := range q.Tickets {
		switch {
		case t.End.After(now):
		case w.has(Settle):
			t.End = now.Add(time.Hour)
		case w.has(Expired):
			t.Session.TTL = 0 // for which its tombstone stays
		case w.has(RemovedAtExpiry):
			w.send(t.Session.Mailbox, exchange.Event{Type: exchange.Removed, ID: t.ID})
		}
	}
	rows.Begin(q, now)
	settled := q.Token
	err := does(q)
	if withholds {
		q.Events = slices.DeleteFunc(q.Events, func(ev rows.Event) bool { return ev.Status.Token > settled })
		for _, t := range q.Tickets {
			if t.Held && t.Token > settled {
				t.Held, t.Fixed = false, false
			}
		}
	}
	if i := slices.Index(q.Tickets, firstWaiter(q)); i >= 0 && w.has(Prefix) {
		events := q.Events
		slices.SortStableFunc(q.Tickets[i:], func(a, b *rows.Ticket) int { return cmp.Compare(a.Units, b.Units) })
		rows.Begin(q, now)
		q.Events = append(events, q.Events...)
	}
	for _, ev := range q.Events {
		ev.Status.Token = either(w, TokensGrow, min(ev.Status.Token, 1), ev.Status.Token)
		if !w.has(Told) || ev.Type != exchange.Granted && ev.Demand != driver.Wanted {
			w.send(ev.Mailbox, ev.Event)
		}
	}
	if t := firstWaiter(q); t != nil && t != first && !w.has(Told) {
		st := q.Look(t.Session, t.ID, false)
		w.send(t.Session.Mailbox, exchange.Event{Type: exchange.FirstWaiter, ID: t.ID, Status: st})
	}
	return err
}

// firstWaiter is the first ticket that is not held, or nil.
func firstWaiter(q *rows.Queue) *rows.Ticket {
	for _, t := range q.Tickets {
		if !t.Held {
			return t
		}
	}
	return nil
}

// look is what an exchange says of a ticket. It settles nothing.
func (w *World) look(o exchange.Session, q *rows.Queue, id string) exchange.Status {
	st := q.Look(o, id, false)
	if w.rowless {
		return st
	}
	if st.State == exchange.Gone || st.Left <= 0 && !w.has(Look) { // then its row is still there
		return exchange.Status{}
	}
	if st.Ahead >= near {
		st.Due, st.Ahead = 0, 0
	}
	st.Stray, st.Unsettled, st.Token = w.strays[id], hasExpired(q), either(w, TokensGrow, min(st.Token, 1), st.Token)
	return st
}

// near is how many waiters have an expiry timer: those in front of the others may all be dead.
const near = 100
