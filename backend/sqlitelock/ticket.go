package sqlitelock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// ticket is what this process knows of one of its tickets.
type ticket struct {
	id    string
	queue string
	n     int64
	owner *session
	hold  bool // it has, or gets with its grant, a fixed end

	state     state
	standing  bool // its Join is through
	unsure    bool // the commit failed in a way that leaves it open
	stray     bool // the last Renew did not extend it
	token     uint64
	inherited bool
	proof     driver.Instant // of its own; its session may have a later one
	bell      chan struct{}  // closed at the next change; nil while nobody listens
}

type state uint8

const (
	waiting state = iota
	held
	gone
)

// tickets are those of this driver's sessions.
type tickets struct {
	mu     sync.Mutex
	byID   map[string]*ticket
	places map[string]map[int64]*ticket // by queue and number
	left   recent                       // IDs of tickets that must not come (again)
	absent map[string]struct{}          // IDs whose Joins are known to have come to nothing
}

func newTickets() tickets {
	return tickets{byID: map[string]*ticket{}, places: map[string]map[int64]*ticket{}, absent: map[string]struct{}{}}
}

func (ts *tickets) get(id string) *ticket {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id]
}

func (ts *tickets) put(t *ticket) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.byID[t.id] = t
	of := ts.places[t.queue]
	if of == nil {
		of = map[int64]*ticket{}
		ts.places[t.queue] = of
	}
	of[t.n] = t
}

// drop forgets a ticket, as if it had never been there.
func (ts *tickets) drop(t *ticket) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.unlink(t)
}

func (ts *tickets) unlink(t *ticket) {
	if ts.byID[t.id] != t {
		return
	}
	delete(ts.byID, t.id)
	of := ts.places[t.queue]
	delete(of, t.n)
	if len(of) == 0 {
		delete(ts.places, t.queue)
	}
}

// leave remembers that an ID must not come (again), and forgets its ticket.
func (ts *tickets) leave(id string, ttl time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byID[id]; t != nil {
		ts.end(t)
	}
	ts.left.put(id, ttl)
}

// end marks a ticket as gone.
func (ts *tickets) end(t *ticket) {
	t.state = gone
	t.ring()
	ts.unlink(t)
	ts.left.put(t.id, t.owner.ttl)
}

// begin takes note that a Join is on its way, and reports whether it is certain that
// none with its ID has come before.
func (ts *tickets) begin(r *driver.Request) (first bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	_, absent := ts.absent[r.ID]
	delete(ts.absent, r.ID)
	return ts.byID[r.ID] == nil && (absent || !r.Retry)
}

// failed takes note that no Join with this ID has come, so that its Leave need not look.
func (ts *tickets) failed(id string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byID[id] == nil && !ts.left.has(id) {
		ts.absent[id] = struct{}{}
	}
}

// leaveAbsent leaves a ticket whose Join is known to have come to nothing.
func (ts *tickets) leaveAbsent(id string, ttl time.Duration) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if _, absent := ts.absent[id]; !absent {
		return false
	}
	delete(ts.absent, id)
	ts.left.put(id, ttl)
	return true
}

// holds reports whether a ticket is held, as far as is known.
func (ts *tickets) holds(id string) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[id]
	return t != nil && t.state == held
}

// known finds a ticket, nil if there is none, and reports whether it has left. Both are
// one look: a message may end the ticket at any time.
func (ts *tickets) known(id string) (t *ticket, left bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id], ts.left.has(id)
}

// standing leaves out tickets whose Join is under way.
func (ts *tickets) standing(all []*ticket) []*ticket {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.DeleteFunc(all, func(t *ticket) bool { return !t.standing })
}

// underWay reports whether the Join of a ticket is not through.
func (ts *tickets) underWay(t *ticket) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return !t.standing
}

// of lists the tickets of a session, except those whose Join is under way.
func (ts *tickets) of(s *session) []*ticket {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var own []*ticket
	for _, t := range ts.byID {
		if t.owner == s && t.standing {
			own = append(own, t)
		}
	}
	return own
}

// waitsIn names some of the queues in which tickets wait.
func (ts *tickets) waitsIn() (queues []string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for name, of := range ts.places {
		if len(queues) == 16 {
			break
		}
		for _, t := range of {
			if t.state == waiting {
				queues = append(queues, name)
				break
			}
		}
	}
	return queues
}

func (t *ticket) ring() {
	if t.bell != nil {
		close(t.bell)
		t.bell = nil
	}
}

// report is the ticket as the caller gets it. The lock is held.
func (t *ticket) report() driver.Ticket {
	r := driver.Ticket{ID: t.id, Queue: t.queue, Held: t.state == held}
	if r.Held {
		r.Token, r.Inherited, r.Proof = t.token, t.inherited, t.proof
		if !t.hold && !t.stray {
			r.Proof = max(r.Proof, t.owner.proof)
		}
	}
	return r
}

// receive takes note of a message.
func (d *Driver) receive(m message) {
	if m.Changed {
		d.bells.ring("queue", m.Queue)
	}
	if m.Over != 0 {
		if s := d.session(m.Over); s != nil {
			s.end()
		}
	}
	if m.Ends != 0 {
		d.alarm.sooner(m.Ends)
	}
	if m.Cell != "" {
		d.bells.ring("cell", m.Cell)
	}
	if m.Look {
		d.bells.ringAll()
		d.background(func(ctx context.Context) { _ = d.look(ctx, nil) })
	}
	ts := &d.tickets
	ts.mu.Lock()
	defer ts.mu.Unlock()
	of := ts.places[m.Queue]
	if of == nil {
		return
	}
	for _, n := range m.Granted {
		if t := of[n]; t != nil && t.state == waiting {
			t.granted(uint64(n+m.Shift), m.Inherited)
			if m.Wanted {
				t.signal(driver.Wanted)
			}
		}
	}
	each := func(numbers []int64, f func(*ticket)) {
		for _, n := range numbers {
			if t := of[n]; t != nil {
				f(t)
			}
		}
	}
	each(m.Want, func(t *ticket) { t.signal(driver.Wanted) })
	each(m.Revoke, func(t *ticket) { t.signal(driver.Revoke) })
	each(m.Evict, func(t *ticket) { t.signal(driver.Evict) })
	each(m.Gone, ts.end)
}

// granted takes note of a grant. The lock is held.
func (t *ticket) granted(token uint64, inherited bool) {
	t.state, t.token, t.inherited = held, token, inherited
	t.ring()
}

// signal queues a signal for the ticket's session, unless the same one is still
// to be delivered. The lock is held.
func (t *ticket) signal(demand driver.Demand) {
	s, sig := t.owner, driver.Signal{Demand: demand, Queue: t.queue, ID: t.id}
	if s.over || slices.Contains(s.signals, sig) {
		return
	}
	s.signals = append(s.signals, sig)
	s.ring()
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	if err := ctx.Err(); err != nil {
		return driver.Signal{}, err
	}
	ts := &s.d.tickets
	for {
		ts.mu.Lock()
		if len(s.signals) > 0 {
			sig := s.signals[0]
			s.signals = s.signals[1:]
			ts.mu.Unlock()
			return sig, nil
		}
		if s.over {
			ts.mu.Unlock()
			return driver.Signal{}, driver.ErrSession
		}
		if s.bell == nil {
			s.bell = make(chan struct{})
		}
		bell := s.bell
		ts.mu.Unlock()
		select {
		case <-bell:
		case <-ctx.Done():
			return driver.Signal{}, ctx.Err()
		case <-s.d.ctx.Done():
			return driver.Signal{}, errClosed
		}
	}
}

// ring wakes Signals. The lock is held.
func (s *session) ring() {
	if s.bell != nil {
		close(s.bell)
		s.bell = nil
	}
}
