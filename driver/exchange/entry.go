package exchange

import (
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// entry is what the client keeps of a ticket, from before its first Join is sent until it is
// gone. All fields but the first are guarded by Driver.mu.
//
// Its state changes so, and in this file only:
//
//	from              to        when
//	(none)            unknown   a Join begins: begin
//	unknown           waiting   an exchange says so: observe
//	unknown, waiting  held      an exchange or an event says so: observe, grant
//	any               gone      it has left, has expired or was removed: retire; or it
//	                            never stood: drop
//
// A ticket that is held never waits again: an exchange that says so was slower than the event of
// the grant. An entry that is gone is not in the maps any more and never comes back; a later Join
// with the ID makes another one, unless the ID is remembered as one that has left.
type entry struct {
	id, queue string
	number    uint64 // see Join.Number
	s         *session

	tag       uint64 // see Ref
	token     uint64 // held
	state     state
	inherited bool // held
	returned  bool // held: Join or Await has said so to the caller
	heeded    bool // held: see heed
	waited    bool // it was a waiter once
	twice     bool // a Join of it has come twice

	// Its Joins. An exchange goes on when its caller gives up, so that a Join can arrive after its
	// caller has returned.
	wasSent  bool            // one may have reached the backend
	noReply  bool            // one that may have reached it got no reply: it may still arrive
	begun    driver.Instant  // when the last one began
	underWay int             // calls of Join that have not returned
	ended    <-chan struct{} // of the last one that has returned: closed when its exchange ends

	// Its end.
	fixed bool           // it has a fixed end
	hold  time.Duration  // how long the fixed time is that it has, or gets with the grant
	proof driver.Instant // the local time from which it is proven to stand: see prove

	// What says when a fixed time began: the backend's time in the last reply that had one, and the
	// local time at which that exchange was sent.
	at   time.Time
	sent driver.Instant

	due     driver.Instant // when its expiry timer fires; 0: never
	poll    time.Duration  // before the next look at what keeps it out, which sends no event
	changed chan struct{}  // closed by the next change; nil if no call waits for it
}

type state uint8

const (
	unknown state = iota // no Join of it has a reply
	waiting
	held
	gone
)

// ref names the ticket. Driver.mu is held.
func (e *entry) ref() Ref { return Ref{e.queue, e.id, e.tag} }

func (d *Driver) refOf(e *entry) Ref {
	d.mu.Lock()
	defer d.mu.Unlock()
	return e.ref()
}

// entry finds that of a ticket of the session. Driver.mu is held.
func (s *session) entry(id string) *entry {
	if e := s.d.entries[id]; e != nil && e.s == s {
		return e
	}
	return nil
}

// entries are those of the session. Driver.mu is held.
func (s *session) entries(yield func(*entry) bool) {
	for _, e := range s.d.entries {
		if e.s == s && !yield(e) {
			return
		}
	}
}

// mayArrive says whether a Join of it may still take effect.
func (e *entry) mayArrive() bool { return e.underWay > 0 || e.noReply }

// ticket is what the caller is told.
func (e *entry) ticket() driver.Ticket {
	t := driver.Ticket{ID: e.id, Queue: e.queue}
	if e.state == held {
		t.Held, t.Token, t.Inherited, t.Proof = true, e.token, e.inherited, e.proof
	}
	return t
}

// begin finds or makes the entry for a Join, and says whether its ticket has stood already: then
// no Join is sent. The entry is there before the Join is sent, since the event of the grant may
// come before the reply.
func (s *session) begin(r *driver.Request) (e *entry, stood bool, err error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e = s.d.entries[r.ID]
	switch {
	case e == nil && r.Retry && s.left.Has(r.ID):
		return nil, false, driver.ErrGone
	case e == nil:
		e = &entry{id: r.ID, queue: r.Queue, number: s.d.newNumber(), s: s, hold: r.Hold, wasSent: r.Retry}
		s.d.entries[e.id], s.d.numbers[e.number] = e, e
	case e.s != s:
		return nil, false, driver.ErrGone
	case e.queue != r.Queue:
		return nil, false, driver.ErrMismatch
	default:
		r.Retry = e.wasSent || e.underWay > 0
	}
	if stood = e.state != unknown; !stood {
		e.underWay++
		if !s.d.traits.Bounded { // else it is sent at once
			e.begun = s.d.now()
		}
	}
	return e, stood, nil
}

// grant is called for an event, or an exchange, that says that the ticket is held.
func (e *entry) grant(token uint64, inherited bool) {
	e.state, e.token, e.inherited, e.due = held, token, inherited, 0
	e.s.d.heed()
	e.notify()
}

// observe is called for each exchange that has found the ticket, with the time at which it was
// sent.
func (e *entry) observe(st Status, sent driver.Instant) {
	e.waited = e.waited || st.State == Waiting
	e.twice = e.twice || st.Found
	if st.State == Held || e.state != held { // else the news of its grant was faster
		e.update(st, sent)
	}
	if st.Wanted {
		e.signal(driver.Wanted)
	}
	if st.Revoked {
		e.signal(driver.Revoke)
	}
	if st.Evicted {
		e.signal(driver.Evict)
	}
}

// update takes over what an exchange has found that is not older than what is known.
func (e *entry) update(st Status, sent driver.Instant) {
	e.tag = st.Tag
	e.at, e.sent = st.At, sent
	if e.fixed = st.Fixed; st.Fixed && st.Hold > 0 {
		e.hold = st.Hold
	}
	if st.Fixed {
		e.proof = min(sent, sent.Add(st.Left-e.hold))
	}
	switch {
	case st.State == Held && e.state != held:
		e.grant(st.Token, st.Inherited)
	case st.State == Waiting:
		e.state = waiting
		if st.Blocked {
			e.poll = min(max(minBlocked, e.poll*3/2), maxBlocked)
			st.Due = e.poll
		}
		e.setTimer(st.Due, st.Ahead)
	}
}

// prove is called with the time at which an exchange was sent that has extended the ticket, or
// has found an end that is at least one TTL after that time. What was proven stays so: an
// exchange that does not extend the ticket leaves it the end that it has. Each entry has a proof
// of its own, since a heartbeat extends only tickets that are not evicted, strays or fixed.
func (e *entry) prove(sent driver.Instant) {
	if !e.fixed {
		e.proof = max(e.proof, sent)
	}
}

// fix is called when a Keep that was sent at that time has given the ticket a fixed end.
func (e *entry) fix(d time.Duration, sent driver.Instant) { e.fixed, e.hold, e.proof = true, d, sent }

// fixAt is called when an event says that a fixed time began with the grant, at that time of the
// backend's clock. Without it, or a reply to compare it with, there is no proof: Await asks.
func (e *entry) fixAt(at time.Time) {
	e.fixed, e.proof = true, 0
	if !at.IsZero() && !e.at.IsZero() {
		// The grant has happened, whatever the backend's clock says.
		e.proof = max(1, min(e.s.d.now(), e.sent.Add(at.Sub(e.at))))
	}
}

// setTimer sets the expiry timer: the first waiter looks as soon as a holder may have expired,
// and those behind it one after the other, since the waiters in front of them may be dead too.
func (e *entry) setTimer(due time.Duration, ahead int) {
	e.due = 0
	if due > 0 {
		e.due = e.s.d.now().Add(due + time.Millisecond + time.Duration(ahead)*e.s.ttl/160)
	}
	e.notify()
}

// How often a waiter looks that a program keeps out which sends no events.
const (
	minBlocked = 2 * time.Millisecond
	maxBlocked = 100 * time.Millisecond
)

func (e *entry) signal(demand driver.Demand) { e.s.signals.Add(demand, e.queue, e.id) }

// notify has Await look at the entry.
func (e *entry) notify() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// wait returns what the next notify closes.
func (e *entry) wait() <-chan struct{} {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

// newNumber is a number that no other ticket of this client has.
func (d *Driver) newNumber() uint64 {
	for {
		if n := NewNumber(); d.numbers[n] == nil {
			return n
		}
	}
}

// NewNumber is a number that a stranger does not guess: see Join.Number.
func NewNumber() uint64 { return 1 + rand.Uint64N(1<<53-1) }

// drop removes an entry whose ticket does not stand, and may be joined again.
func (d *Driver) drop(e *entry) {
	e.state = gone
	e.notify()
	if d.entries[e.id] == e {
		delete(d.entries, e.id)
		delete(d.numbers, e.number)
	}
}

// retire removes an entry whose ticket must not come back.
func (d *Driver) retire(e *entry) {
	d.drop(e)
	e.s.left.Add(e.id)
	if e.mayArrive() {
		e.s.addOrphan(e.ref(), latest)
	}
}

// latest is how much later than it was given up a Join may arrive: networks repeat for so long
// what was not acknowledged.
const latest = 20 * time.Minute

// maxOrphans bounds what a heartbeat names.
const maxOrphans = perLook

// addOrphan has heartbeats name a ticket for some time, so that it becomes a stray if it stands, and
// reports whether there is room for it. Without rows of sessions heartbeats extend only what the
// caller names.
func (s *session) addOrphan(t Ref, span time.Duration) (added bool) {
	if s.d.detach == nil || len(s.orphans) >= maxOrphans {
		return false
	}
	s.orphans[t] = max(s.orphans[t], s.d.now().Add(span))
	return true
}
