package pglock

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

var noError = errtest.None

// Promise: a connection that nobody uses is closed after 30 seconds, so that a process that
// was busy once leaves its connections to others; or after the time that the URL says.
func TestAnIdleConnectionIsClosedSoon(t *testing.T) {
	for options, want := range map[string]time.Duration{"": 30 * time.Second, "?pool_max_conn_idle_time=7m": 7 * time.Minute} {
		u := errtest.Must(driver.ParseURL("postgres://app@127.0.0.1:1/locks" + options))(t)
		s := errtest.Must(storeOf(u))(t)
		c := s.pool.Config()
		if c.MaxConnIdleTime != want || c.HealthCheckPeriod > max(want/2, 15*time.Second) {
			t.Errorf("with %q idle connections stay for %v, and are looked for every %v", options, c.MaxConnIdleTime, c.HealthCheckPeriod)
		}
		s.Close()
	}
}
