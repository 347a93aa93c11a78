package redislock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// place is what this client knows of a ticket.
type place struct {
	number uint64 // by which messages name it; a stranger does not know it
	id     string
	q      *queue
	s      *session
	hold   time.Duration
	robust bool

	// Guarded by Driver.mu.
	state     state
	joined    driver.Instant // when a Join was sent last
	told      bool           // Join or Await has said that it is held
	lone      bool           // granted by take.lua
	sure      bool           // no Join can be under way any more
	doubted   bool           // a message that proves nothing has come before the answer of its Join
	token     uint64
	inherited bool
	fixed     bool           // it has a fixed end
	proof     driver.Instant // local time of the last exchange that kept it
	server    int64          // time of the server, at or after the local time sent
	granted   int64          // time of the server at which a fixed time began, if news told it
	sent      driver.Instant
	again     driver.Instant // when to look at the queue again for its sake; 0: need not
	poll      time.Duration  // how long to wait before the next look at another library's lock
	news      chan struct{}  // closed at the next change; nil if nobody waits for it
}

type state uint8

const (
	unknown state = iota // its Join has no answer
	waiting
	held
	gone
)

func (p *place) ticket() driver.Ticket {
	t := driver.Ticket{ID: p.id, Queue: p.q.name}
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

// lookAfter notes what a script said about when to look again.
func (p *place) lookAfter(now driver.Instant, us int64) {
	const least, most = 2 * time.Millisecond, 100 * time.Millisecond
	switch {
	case us < 0:
		p.again = 0
	case us == 0: // another library has the lock and sends no news
		p.poll = min(max(least, p.poll*3/2), most)
		p.again = now.Add(p.poll)
	default:
		p.again = now.Add(time.Duration(us)*time.Microsecond + time.Millisecond)
	}
	p.changed()
}

// dated returns the local time that is at most that of an instant of the server, by
// a reading of its clock that was made after the local time sent. It has passed,
// whatever the server's clock says.
func (p *place) dated(server int64) driver.Instant {
	return min(driver.Now(), p.sent.Add(time.Duration(server-p.server)*time.Microsecond))
}

// forget ends what is known of a ticket. Driver.mu is held.
func (d *Driver) forget(p *place) {
	p.state = gone
	p.changed()
	delete(d.places, p.number)
	if p.s.places[p.id] == p {
		delete(p.s.places, p.id)
	}
}

// ended is forget for a ticket that has stood and must not come back.
func (d *Driver) ended(p *place) {
	d.forget(p)
	p.s.left.Add(p.id)
}

// robustMark is what TOKEN begins with while a lone ticket stands.
func (p *place) robustMark() string {
	if p.robust {
		return "!"
	}
	return "?"
}
