package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

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
