package guard

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

func TestGraceIsAQuarterOfTheTTLAndTenSecondsAtMost(t *testing.T) {
	deadline := driver.Instant(time.Hour)
	for _, c := range []struct{ ttl, grace, lead time.Duration }{
		{time.Second, 250 * time.Millisecond, 100 * time.Millisecond},
		{10 * time.Second, 2500 * time.Millisecond, time.Second},
		{40 * time.Second, 10 * time.Second, time.Second},
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
