package guard

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// afterDeath is how long a job may still run after it was asked to end because
// the program that holds its lock has died.
const afterDeath = 500 * time.Millisecond

// schedule says when a job is to be asked to end, and when to be killed. With a
// TTL of T, before (after: negative) the deadline of the lease:
//
//	 0.90 T  the proof: the deadline is this + T − margin (T/10, 1 s at most)
//	 0.40 T  a healthy lease has been renewed by now, on every backend
//	 0.20 T  and by now, if server or client paused for T/5
//	 0.17 T  TERM (T/6, 10 s at most)
//	 0.05 T  KILL (T/20, 1 s at most)
//	 0       nobody of the job is left; the lease is lost
//	−0.10 T  the backend gives the lock to the next (the margin)
//
// So TERM comes neither to healthy work nor because of a pause of T/5: in between is
// T/30. A job has 0.12 T from TERM to KILL.
type schedule struct {
	ttl      time.Duration
	deadline driver.Instant
}

// grace is how long before a deadline the job is asked to end.
func (s schedule) grace() time.Duration { return min(s.ttl/6, 10*time.Second) }

// lead is how long before a deadline the job is killed: a killed process needs
// a moment to be gone, and a large one some more.
func (s schedule) lead() time.Duration { return min(s.ttl/20, time.Second) }

func (s schedule) termAt() driver.Instant { return s.deadline.Add(-s.grace()) }
func (s schedule) killAt() driver.Instant { return s.deadline.Add(-s.lead()) }
