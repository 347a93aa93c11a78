package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
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

// stall is the last time for which this process stood still, as the reaper noticed it. It
// tells an operator whether a lease was lost here or at the backend.
type stall struct{ at, lasted atomic.Int64 }

// late is how long the reaper is overdue: only a process that stands still, or gets no
// processor, keeps it from looking.
func (r *reaper) late(now driver.Instant) time.Duration {
	return now.Sub(driver.Instant(r.next.Load()))
}

// shortest is the shortest stall that is told, as a part of the TTL.
const shortest = 10

// noteStall is called before the reaper looks.
func (r *reaper) noteStall(now driver.Instant, ttl time.Duration) {
	if late := r.late(now); late > ttl/shortest {
		r.stall.at.Store(int64(now))
		r.stall.lasted.Store(int64(late))
	}
}

// stalled is how long this process stood still, at last, after the given time.
func (r *reaper) stalled(after, now driver.Instant, ttl time.Duration) time.Duration {
	switch late := r.late(now); {
	case late > ttl/shortest: // the reaper has not even looked
		return late
	case driver.Instant(r.stall.at.Load()) > after:
		return time.Duration(r.stall.lasted.Load())
	}
	return 0
}

// overdue says in one line why the deadline has passed.
func (t *ticket) overdue(now driver.Instant) error {
	if t.fixed() {
		return errors.New("its time is over")
	}
	if t.r.AtMost > 0 && t.deadline == t.since.Add(t.r.AtMost) {
		return fmt.Errorf("it was held for %v, as long as AtMost allows", t.r.AtMost)
	}
	s := "it was not renewed in time: " + t.describeSilence(now)
	if t.doubt != nil {
		s += "; " + strings.Join(strings.Fields(t.doubt.Error()), " ")
	}
	return errors.New(s)
}

// describeSilence says how long ago the last answer came, and for how long this process stood still
// since, if it did.
func (t *ticket) describeSilence(now driver.Instant) string {
	var s strings.Builder
	fmt.Fprintf(&s, "the last answer came %v ago", about(now.Sub(t.heard)))
	ttl := t.sess.ttl
	if age := t.heard.Sub(t.end.Add(-ttl)); age > ttl/3 {
		fmt.Fprintf(&s, ", and proved nothing newer than %v before", about(age))
	}
	if d := t.e.reaper.stalled(t.heard, now, ttl); d > 0 {
		fmt.Fprintf(&s, "; this process stood still for %v", about(d))
	}
	return s.String()
}

// renewError is what became of a renewal that had to be answered within limit.
func renewError(err error, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the backend did not answer within %v: %w", about(limit), err)
	}
	return fmt.Errorf("the backend said: %w", err)
}

// about is d as a reader wants it.
func about(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
