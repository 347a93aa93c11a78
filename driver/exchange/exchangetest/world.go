// Package exchangetest has a backend in memory behind a network that loses, delays, reorders and
// repeats, and crashes. Tests of package exchange use it. Its queues are the rows of package rows; it
// adds rows of sessions, which decide when tickets end.
//
// A [Fault] breaks one sentence of the contract. Tests show what goes wrong then.
package exchangetest

import (
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
	sessions map[string]*session // by ID
	rowless  bool                // there are none: see Rowless
	strays   map[string]bool     // IDs of tickets
	copied   map[string]bool     // IDs of tickets that a replica has
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
		queues: map[string]*rows.Queue{}, cells: map[string]*rows.Cell{}, sessions: map[string]*session{},
		strays: map[string]bool{}, copied: map[string]bool{}, mail: map[string]*mailbox{}, history: "first", faults: faults,
	}
}

// has reports whether the world has a fault.
func (w *World) has(f Fault) bool { return slices.Contains(w.faults, f) }

// session is the row of a session.
type session struct {
	end    time.Time
	over   bool
	closed func() bool // whether the file is closed that it lives as long as; nil: there is none
}

func (s *session) isOver() bool {
	s.over = s.over || s.closed != nil && s.closed()
	return s.over
}

// alive reports whether a session is over.
func (w *World) alive(id string, now time.Time) error {
	if s := w.sessions[id]; !w.rowless && (s == nil || s.isOver() || !s.end.After(now)) {
		return driver.ErrSession
	}
	return nil
}

// withSession reports whether a ticket has no end of its own.
func (w *World) withSession(t *rows.Ticket) bool {
	return !w.rowless && !t.Fixed && !t.Evicted && !w.strays[t.ID]
}

// end is when a ticket ends unless something moves that.
func (w *World) end(t *rows.Ticket, now time.Time) time.Time {
	s := w.sessions[t.Session.ID]
	least := t.Since.Add(t.Session.TTL)
	switch {
	case t.Fixed:
		return t.End
	case w.has(Settle):
		return now.Add(time.Hour)
	case s != nil && s.isOver():
		return time.Time{}
	case !w.withSession(t):
		return t.End
	case w.has(OneEnd) || s.end.After(least):
		return s.end
	}
	return least
}

// queue is the row of a queue, which is made if it is missing, with the ends that its tickets have now.
// It is not settled.
func (w *World) queue(name string, now time.Time) *rows.Queue {
	q := w.queues[name]
	if q == nil {
		q = &rows.Queue{Name: name}
		w.queues[name] = q
	}
	q.Exchange = &rows.Exchange{Now: now}
	q.Token = max(q.Token, w.floor)
	for _, t := range q.Tickets {
		t.End = w.end(t, now)
	}
	return q
}

// expired are the tickets that are to be taken out.
func expired(q *rows.Queue) (all []*rows.Ticket) {
	for _, t := range q.Tickets {
		if !t.End.After(q.Now) {
			all = append(all, t)
		}
	}
	return all
}

// find returns a ticket of a session that stands, or nil.
func (w *World) find(o exchange.Session, ref exchange.Ref, now time.Time) *rows.Ticket {
	if t := w.queue(ref.Queue, now).Ticket(ref.ID); t != nil && t.Session.ID == o.ID && t.End.After(now) {
		return t
	}
	return nil
}

// exchange makes an exchange with a queue, which is settled before and after that, unless a fault
// withholds the grants.
func (w *World) exchange(name string, now time.Time, withholds bool, does func(*rows.Queue) error) error {
	q := w.queue(name, now)
	first, last := firstWaiter(q), q.Token
	dead := expired(q)
	for _, t := range dead {
		if w.withSession(t) && !w.has(OverIsOver) {
			w.sessions[t.Session.ID].over = true
		}
		if w.has(RemovedAtExpiry) {
			w.send(t.Session.Mailbox, exchange.Event{Type: exchange.Removed, ID: t.ID})
		}
	}
	rows.Begin(q, now)
	for _, t := range dead {
		if w.has(Expired) {
			delete(q.Tombstones, t.ID)
		}
	}
	settled := q.Token
	err := does(q)
	if withholds {
		w.withhold(q, settled)
	}
	if w.has(Prefix) {
		w.passWaiters(q)
	}
	if w.has(TokensGrow) {
		for _, t := range q.Tickets {
			if t.Held && t.Token > last {
				t.Token = uint64(len(q.Tickets))
			}
		}
	}
	for _, ev := range q.Events {
		if w.has(TokensGrow) {
			ev.Status.Token = min(ev.Status.Token, uint64(len(q.Tickets)))
		}
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

func isWaiter(t *rows.Ticket) bool { return !t.Held }

func firstWaiter(q *rows.Queue) *rows.Ticket {
	if i := slices.IndexFunc(q.Tickets, isWaiter); i >= 0 {
		return q.Tickets[i]
	}
	return nil
}

// withhold takes the grants back whose tokens are larger than the last one of before.
func (w *World) withhold(q *rows.Queue, last uint64) {
	for _, t := range q.Tickets {
		if t.Held && t.Token > last {
			t.Held, t.Fixed = false, false
		}
	}
	q.Events = slices.DeleteFunc(q.Events, func(ev rows.Event) bool {
		return ev.Type == exchange.Granted && ev.Status.Token > last
	})
}

// passWaiters is the fault Prefix: waiters pass one that does not fit.
func (w *World) passWaiters(q *rows.Queue) {
	held, free := 0, q.Capacity
	for i, t := range q.Tickets {
		if free -= t.Units; free < 0 && !t.Held {
			free += t.Units
			continue
		}
		q.Tickets = slices.Insert(slices.Delete(q.Tickets, i, i+1), held, t)
		held++
	}
	events := q.Events
	q.Events = append(events, rows.Begin(q, q.Now).Events...)
}

// look is what an exchange says of a ticket.
func (w *World) look(o exchange.Session, q *rows.Queue, id string, extend bool) exchange.Status {
	st := q.Look(o, id, extend)
	switch {
	case w.rowless:
		return st
	case st.State == exchange.Gone, st.Left <= 0 && !w.has(Look): // then its row is still there
		return exchange.Status{}
	}
	st.Stray, st.Unsettled = w.strays[id], len(expired(q)) > 0
	if st.Ahead >= near {
		st.Due, st.Ahead = 0, 0
	}
	return st
}

// near is how many waiters have an expiry timer: those in front of the others may all be dead.
const near = 100

// cell is the row of a cell.
func (w *World) cell(name string, now time.Time) *rows.Cell {
	c := w.cells[name]
	if c == nil {
		c = &rows.Cell{Name: name}
		w.cells[name] = c
	}
	rows.Begin(c, now)
	return c
}
