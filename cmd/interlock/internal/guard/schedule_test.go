package guard

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Promise: TERM a sixth of the TTL before the deadline, 10 s at most; KILL a twentieth of
// it, 1 s at most.
func TestGraceIsASixthOfTheTTLAndTenSecondsAtMost(t *testing.T) {
	deadline := driver.Instant(time.Hour)
	for _, c := range []struct{ ttl, grace, lead time.Duration }{
		{1200 * time.Millisecond, 200 * time.Millisecond, 60 * time.Millisecond},
		{12 * time.Second, 2 * time.Second, 600 * time.Millisecond},
		{30 * time.Second, 5 * time.Second, time.Second},
		{time.Minute, 10 * time.Second, time.Second},
		{time.Hour, 10 * time.Second, time.Second},
	} {
		s := schedule{c.ttl, deadline}
		if got := deadline.Sub(s.termAt()); got != c.grace {
			t.Errorf("TTL %v: asked to end %v before the deadline, want %v", c.ttl, got, c.grace)
		}
		if got := deadline.Sub(s.killAt()); got != c.lead {
			t.Errorf("TTL %v: killed %v before the deadline, want %v", c.ttl, got, c.lead)
		}
	}
}

// Promise: a lease that is healthy has two fifths of its TTL left at least; neither it nor a
// pause of another fifth ends the job.
func TestAPauseOfAFifthOfTheTTLEndsNoJob(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 15 * time.Second, time.Minute, 24 * time.Hour} {
		s := schedule{ttl, driver.Instant(48 * time.Hour)}
		afterPause := s.deadline.Add(ttl/5 - ttl*2/5)
		if spare := s.termAt().Sub(afterPause); spare < ttl/40 {
			t.Errorf("TTL %v: TERM comes %v after the end of the longest pause", ttl, spare)
		}
		if stop := s.killAt().Sub(s.termAt()); stop < ttl/10 && stop < 9*time.Second {
			t.Errorf("TTL %v: the job has %v from TERM to KILL", ttl, stop)
		}
	}
}
