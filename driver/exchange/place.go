package exchange

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// place is what this client knows of a ticket. All of it but the first fields is
// guarded by Driver.mu.
type place struct {
	id, queue string
	s         *session

	state     state
	joined    driver.Instant // when a Join was sent last
	joining   int            // Joins under way
	sent      bool           // a Join may have reached the database
	arriving  chan struct{}  // of the last Join that has returned: closed when its exchange has ended
	doubt     bool           // a Join without an answer may still come
	told      bool           // Join or Await has said that it is held
	waited    bool           // the database has said that it waits
	token     uint64
	inherited bool
	hold      time.Duration  // the length of its fixed time, if it has, or gets, one
	fixed     bool           // it has a fixed end
	proof     driver.Instant // the local time from which it is proven to stand: see prove
	again     driver.Instant // when to look at the queue again for its sake; 0: need not
	news      chan struct{}  // closed at the next change; nil if nobody waits for it
}

type state uint8

const (
	unknown state = iota // its Join has no answer
	waiting
	held
	gone
)

func (p *place) ref() Ref { return Ref{p.queue, p.id} }

func (p *place) ticket() driver.Ticket {
	t := driver.Ticket{ID: p.id, Queue: p.queue}
	if p.state == held {
		t.Held, t.Token, t.Inherited, t.Proof = true, p.token, p.inherited, p.proof
	}
	return t
}

// changed wakes Await.
func (p *place) changed() {
	if p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// next returns what is closed at the next change.
func (p *place) next() <-chan struct{} {
	if p.news == nil {
		p.news = make(chan struct{})
	}
	return p.news
}

func (p *place) isHeld(token uint64, inherited bool) {
	if p.state == gone {
		return
	}
	p.state, p.token, p.inherited, p.again = held, token, inherited, 0
	p.changed()
}

// seen takes note of what the database said of a ticket that stands, in answer to a
// question that was sent then.
func (p *place) seen(st Standing, sent driver.Instant) {
	p.waited = p.waited || st.State == Waits
	if p.fixed = st.Fixed; st.Fixed && st.Hold > 0 {
		p.hold = st.Hold
	}
	if st.Fixed {
		p.proof = min(sent, sent.Add(st.Left-p.hold))
	}
	switch {
	case st.State == Held && p.state != held:
		p.isHeld(st.Token, st.Inherited)
	case st.State == Waits && p.state != held: // else the news of its grant was faster
		p.state = waiting
		p.lookAfter(st)
	}
	if st.Wanted {
		p.signal(driver.Wanted)
	}
	if st.Revoked {
		p.signal(driver.Revoke)
	}
	if st.Evicted {
		p.signal(driver.Evict)
	}
}

// prove takes note of an exchange that has extended the ticket, or has found an end that
// is at least one TTL after then. What was proven once stays so: a later exchange that
// does not extend the ticket leaves it the end that it has. So every ticket has a proof
// of its own, and none follows from a renewal of the session that was not seen to be for
// this ticket, too.
func (p *place) prove(sent driver.Instant) {
	if !p.fixed {
		p.proof = max(p.proof, sent)
	}
}

// lookAfter notes when to look whether what holds has ended: the first in line at
// once, those behind it one after the other, since those in front may be dead, too.
func (p *place) lookAfter(st Standing) {
	p.again = 0
	if st.Again > 0 {
		p.again = driver.Now().Add(st.Again + time.Millisecond + time.Duration(st.Ahead)*p.s.ttl/160)
	}
	p.changed()
}

func (p *place) signal(demand driver.Demand) { p.s.signals.Add(demand, p.queue, p.id) }

// forget ends what is known of a ticket. Driver.mu is held.
func (d *Driver) forget(p *place) {
	p.state = gone
	p.changed()
	if d.places[p.id] == p {
		delete(d.places, p.id)
		delete(p.s.places, p.id)
	}
}

// ended is forget for a ticket that has stood and must not come back.
func (d *Driver) ended(p *place) {
	d.forget(p)
	p.s.left.Add(p.id)
	if p.doubt || p.joining > 0 {
		p.s.orphan(p.ref(), latest)
	}
}

// latest is how much later than it was given up a Join may arrive: networks send it
// again and again for so long.
const latest = 20 * time.Minute

// maxOrphans bounds what heartbeats carry.
const maxOrphans = perLook

// orphan has heartbeats name a ticket for some time. Driver.mu is held.
func (s *session) orphan(t Ref, span time.Duration) {
	if len(s.orphans) < maxOrphans {
		s.orphans[t] = max(s.orphans[t], driver.Now().Add(span))
	}
}
