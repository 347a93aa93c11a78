package interlock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// reaper ends leases at their deadlines by the local clock, whether or not the
// backend can be reached: one timer for all.
type reaper struct {
	poke chan struct{}
	idle bool           // no ticket to look after; guarded by Client.mu
	next driver.Instant // when it looks again; guarded by Client.mu
}

// lookout is the longest time between two looks at the clock, as a part of the
// TTL: timers stand still while a machine is suspended, the clock does not.
const lookout = 10

// reap runs until the client is closed.
func (c *Client) reap() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.reaper.poke:
		case <-c.ctx.Done():
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
	next := now.Add(c.cfg.ttl / lookout)
	var due []*ticket
	for id, t := range c.tickets {
		at, forget := t.due()
		switch {
		case forget && at <= now:
			delete(c.tickets, id)
		case at <= now:
			due = append(due, t)
		default:
			next = min(next, at)
		}
	}
	c.reaper.idle = len(c.tickets) == 0
	c.reaper.next = next
	idle := c.reaper.idle
	c.mu.Unlock()
	for _, t := range due {
		t.expire()
	}
	return next, !idle
}

// watchDeadline has the reaper look at a deadline in time. c.mu is held.
func (c *Client) watchDeadline(at driver.Instant) {
	if c.reaper.idle || at < c.reaper.next {
		c.reaper.idle = false
		c.reaper.next = min(c.reaper.next, at)
		select {
		case c.reaper.poke <- struct{}{}:
		default:
		}
	}
}
