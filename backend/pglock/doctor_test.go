package pglock_test

import (
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: a server as it comes is fit; settings that weaken promises are found, and an old TTL that makes the grace
// after a crash long.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable())
	doctortest.ExamineURL(t, s.URL()).Only()
	for _, name := range []string{"fsync", "full_page_writes"} {
		s.SQL("ALTER SYSTEM SET " + name + " = off")
		s.SQL("SELECT pg_reload_conf()")
		busy.Until(t, "the setting is off", func() bool {
			return s.SQL("SELECT setting = reset_val AND setting <> boot_val FROM pg_settings WHERE name = '"+name+"'") == "t"
		})
		doctortest.ExamineURL(t, s.URL()).Has("disk", driver.Fail, name)
		s.SQL("ALTER SYSTEM RESET " + name)
		s.SQL("SELECT pg_reload_conf()")
	}
	d := doctortest.Open(t, s.URL()+"&schema=grace")
	doctortest.Examine(t, t.Context(), d).Has("crash", driver.OK)
	s.SQL("UPDATE grace.meta SET longest = 3600000000")
	doctortest.Examine(t, t.Context(), d).Has("crash", driver.Warn, "1h0m0s")
}
