package guard

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// afterDeath is how long a job may still run after it was asked to end because
// the program that holds its lock has died.
const afterDeath = 500 * time.Millisecond

// schedule says when a job is to be asked to end, and when to be killed.
type schedule struct {
	ttl      time.Duration
	deadline driver.Instant
}

// grace is how long before a deadline the job is asked to end.
func (s schedule) grace() time.Duration { return min(s.ttl/4, 10*time.Second) }

// lead is how long before a deadline the job is killed: a killed process needs
// a moment to be gone, and a large one some more.
func (s schedule) lead() time.Duration { return min(s.ttl/10, time.Second) }

func (s schedule) termAt() driver.Instant { return s.deadline.Add(-s.grace()) }
func (s schedule) killAt() driver.Instant { return s.deadline.Add(-s.lead()) }
