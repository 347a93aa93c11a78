package engine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// reaper ends leases at their deadlines by the local clock, whether or not the
// backend can be reached: one timer for all. It makes no call that may block.
type reaper struct {
	poke  chan struct{}
	done  chan struct{}
	next  atomic.Int64 // when it looks again; never if there is no ticket
	stall stall
}

// never is later than every deadline.
const never = driver.Instant(math.MaxInt64)

func newReaper() *reaper {
	r := &reaper{poke: make(chan struct{}, 1), done: make(chan struct{})}
	r.next.Store(int64(never))
	return r
}

// lookout is the longest time between two looks at the clock, as a part of the
// TTL: timers stand still while a machine is suspended, the clock does not.
const lookout = 20

// reap runs until the client is closed.
func (e *Engine) reap() {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-e.reaper.poke:
		case <-e.reaper.done:
			return
		}
		timer.Stop()
		if next, ok := e.reapOnce(); ok {
			timer.Reset(max(0, next.Sub(e.d.Now())))
		}
	}
}

// reapOnce ends what is due and returns when to look again, if ever.
func (e *Engine) reapOnce() (driver.Instant, bool) {
	now := e.d.Now()
	ttl := e.TTL()
	e.reaper.noteStall(now, ttl)
	next := now.Add(ttl / lookout)
	e.reaper.next.Store(int64(next)) // before it looks: from now on lookAt makes it sooner
	e.eachTicket(func(t *ticket) {
		switch at := t.due(); {
		case at > now:
			lower(&e.reaper.next, int64(at))
		case t.state == ticketHeld:
			t.checkDeadline(now)
		default:
			t.q.forget(t)
		}
	})
	if e.tickets.Load() > 0 {
		return driver.Instant(e.reaper.next.Load()), true
	}
	e.reaper.next.Store(int64(never))
	if e.tickets.Load() > 0 { // one that has been listed meanwhile may have been granted before
		e.reaper.lookAt(next)
	}
	return never, false
}

// due returns when the reaper has to act.
func (t *ticket) due() driver.Instant {
	switch t.state {
	case ticketHeld:
		return t.deadline
	case ticketLost, ticketExpiring:
		return t.end
	}
	return never
}

// lookAt has the reaper look at a deadline in time.
func (r *reaper) lookAt(at driver.Instant) {
	if lower(&r.next, int64(at)) {
		select {
		case r.poke <- struct{}{}:
		default:
		}
	}
}

// lower makes a time earlier, and reports whether it was later.
func lower(at *atomic.Int64, to int64) bool {
	for {
		was := at.Load()
		if to >= was {
			return false
		}
		if at.CompareAndSwap(was, to) {
			return true
		}
	}
}
