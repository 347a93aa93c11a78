// Package exchangetest has a backend in memory behind a network that loses, delays, reorders and
// repeats, and crashes. Tests of package exchange use it, and it is an example of a Store: what
// world.go, queue.go and store.go do is what each Store has to do, in its backend's words.
//
// A [Fault] breaks one sentence of the contract. Tests show what goes wrong then.
package exchangetest

import (
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// World is a backend in memory. Its stores are clients of it.
type World struct {
	mu       sync.Mutex
	queues   map[string]*queue
	tickets  map[string]*ticket // by ID
	sessions map[string]*session
	tombs    map[string]time.Time // until when a Join with this ID is refused
	cells    map[string]*cell
	swaps    map[string]swap // by ID
	mail     map[string]*mailbox
	history  string
	floor    uint64 // of the tokens of all queues
	faults   map[Fault]bool
	network  Network
	links    []*Store
}

// NewWorld makes an empty backend, with these faults.
func NewWorld(faults ...Fault) *World {
	w := &World{
		queues: map[string]*queue{}, tickets: map[string]*ticket{}, sessions: map[string]*session{}, tombs: map[string]time.Time{},
		cells: map[string]*cell{}, swaps: map[string]swap{}, mail: map[string]*mailbox{}, history: "first", faults: map[Fault]bool{},
	}
	for _, f := range faults {
		w.faults[f] = true
	}
	return w
}

// has reports whether the world has a fault.
func (w *World) has(f Fault) bool { return w.faults[f] }

// session is the row of a session.
type session struct {
	id, owner string
	ttl       time.Duration
	mailbox   string
	end       time.Time
	over      bool
	closed    func() bool // whether the file is closed that it lives as long as; nil: there is none
}

// alive finds a session that is not over.
func (w *World) alive(id string, now time.Time) (*session, error) {
	s := w.sessions[id]
	if s == nil || s.isOver() || !s.end.After(now) {
		return nil, driver.ErrSession
	}
	return s, nil
}

func (s *session) isOver() bool {
	s.over = s.over || s.closed != nil && s.closed()
	return s.over
}

// queue is the row of a queue. Its tickets are in the order of their Joins; the first are held.
type queue struct {
	name     string
	kind     driver.Kind
	capacity int64
	resized  bool // the capacity is kept while there are no tickets
	tickets  []*ticket
	granted  int
	used     int64 // units of the tickets that are held
	told     int   // holders that know that there is a waiter
	unclean  bool  // the last exclusive holder did not leave cleanly
	last     uint64
	follow   map[string]bool // mailboxes that are sent the next change
}

// ticket is the row of a ticket.
type ticket struct {
	driver.Request
	queue     *queue
	session   *session
	owner     string
	since     time.Time
	held      bool
	token     uint64
	inherited bool
	ends      time.Time // its own end, if it is fixed, evicted or a stray
	fixed     bool
	hold      time.Duration // how long its fixed time is
	kept      bool          // it was not joined with Hold: it ends cleanly
	evicted   bool
	revoked   bool
	stray     bool
	rowless   bool // its end is always its own
	copied    bool // a replica has it
}

// end is when a ticket ends unless something moves that.
func (t *ticket) end(w *World) time.Time {
	switch {
	case t.fixed, t.rowless:
		return t.ends
	case t.session.isOver():
		return time.Time{}
	case t.evicted, t.stray:
		return t.ends
	case w.has(OneEnd) || t.session.end.After(t.since.Add(t.session.ttl)):
		return t.session.end
	}
	return t.since.Add(t.session.ttl)
}

// own gives a ticket an end of its own.
func (t *ticket) own(w *World) {
	if !t.fixed && !t.evicted && !t.stray {
		t.ends = t.end(w)
	}
}

// queue finds or makes a row.
func (w *World) queue(name string) *queue {
	q := w.queues[name]
	if q == nil {
		q = &queue{name: name, follow: map[string]bool{}}
		w.queues[name] = q
	}
	return q
}

// find returns a ticket that stands in a queue: one of the session, or if others, one with a
// fixed end.
func (w *World) find(session, queue, id string, others bool, now time.Time) *ticket {
	t := w.tickets[id]
	if t == nil || t.queue.name != queue || !t.end(w).After(now) || t.session.id != session && !(others && t.fixed) {
		return nil
	}
	return t
}

// cell is the row of a cell.
type cell struct {
	driver.Cell
	watch map[string]bool // mailboxes that are sent the next change
}

// swap is what a Swap has answered.
type swap struct {
	cell driver.Cell
	err  error
	at   time.Time
}

func (w *World) cell(name string) *cell {
	c := w.cells[name]
	if c == nil {
		c = &cell{watch: map[string]bool{}}
		w.cells[name] = c
	}
	return c
}
