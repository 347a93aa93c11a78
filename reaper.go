package interlock

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// reaper ends leases at their deadlines by the local clock, whether or not the
// backend can be reached: one timer for all. It makes no call that may block.
type reaper struct {
	poke  chan struct{}
	done  chan struct{}
	end   sync.Once
	next  atomic.Int64 // when it looks again; never if there is no ticket; written with Client.mu held
	stall stall
}

// never is later than every deadline.
const never = driver.Instant(math.MaxInt64)

func newReaper() *reaper {
	r := &reaper{poke: make(chan struct{}, 1), done: make(chan struct{})}
	r.next.Store(int64(never))
	return r
}

func (r *reaper) stop() { r.end.Do(func() { close(r.done) }) }

// lookout is the longest time between two looks at the clock, as a part of the
// TTL: timers stand still while a machine is suspended, the clock does not.
const lookout = 20

// reap runs until the client is closed.
func (c *Client) reap() {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.reaper.poke:
		case <-c.reaper.done:
			return
		}
		timer.Stop()
		if next, ok := c.reapOnce(); ok {
			timer.Reset(max(0, next.Sub(c.d.Now())))
		}
	}
}

// reapOnce ends what is due and returns when to look again, if ever.
func (c *Client) reapOnce() (driver.Instant, bool) {
	now := c.d.Now()
	c.mu.Lock()
	c.reaper.noteStall(now, c.ttl)
	next := now.Add(c.ttl / lookout)
	var due []*ticket
	for _, t := range c.tickets {
		at, forget := t.due()
		switch {
		case at > now:
			next = min(next, at)
		case forget:
			t.forget()
		default:
			due = append(due, t)
		}
	}
	idle := len(c.tickets) == 0
	if idle {
		next = never
	}
	c.reaper.next.Store(int64(next))
	c.mu.Unlock()
	for _, t := range due {
		t.expire()
	}
	return next, !idle
}

// due returns when the reaper has to act, and whether it then only forgets the
// ticket.
func (t *ticket) due() (at driver.Instant, forget bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.state {
	case ticketHeld:
		return t.deadline, false
	case ticketLost, ticketSpent:
		return t.end, true
	}
	return never, false
}

// lookAt has the reaper look at a deadline in time. c.mu is held.
func (c *Client) lookAt(at driver.Instant) {
	r := c.reaper
	if at >= driver.Instant(r.next.Load()) {
		return
	}
	r.next.Store(int64(at))
	select {
	case r.poke <- struct{}{}:
	default:
	}
}
