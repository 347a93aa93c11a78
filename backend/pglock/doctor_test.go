package pglock_test

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable(), pgtest.User("app", ""))

	// Promise: a server as it comes, and a user with the rights that are printed, are
	// fit.
	t.Run("fit", func(t *testing.T) {
		d := doctortest.Open(t, s.URL())
		for _, f := range d.Check(t.Context()) {
			if f.Status != driver.OK {
				t.Errorf("%+v", f)
			}
		}
		s.SQL(`GRANT USAGE ON SCHEMA interlock TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA interlock TO app`)
		for _, f := range doctortest.Open(t, s.URLOf("app", "")).Check(t.Context()) {
			if f.Status != driver.OK {
				t.Errorf("as app: %+v", f)
			}
		}
	})

	// Promise: rights that are missing are named, with what grants them.
	t.Run("rights", func(t *testing.T) {
		d := doctortest.Open(t, s.URLOf("app", ""))
		s.SQL(`REVOKE UPDATE ON interlock.queue FROM app`)
		doctortest.Examine(t, t.Context(), d).Has("exchanges", driver.Fail, "queue", "interlock admin schema --only-grants --grant app")
		s.SQL(`GRANT UPDATE ON interlock.queue TO app`)
	})

	// Promise: settings that weaken promises are found.
	t.Run("settings", func(t *testing.T) {
		for _, c := range []struct {
			setting, check string
			status         driver.Status
		}{
			{"fsync = off", "disk", driver.Fail},
			{"full_page_writes = off", "disk", driver.Fail},
		} {
			name, _, _ := strings.Cut(c.setting, " ")
			s.SQL("ALTER SYSTEM SET " + c.setting)
			s.SQL("SELECT pg_reload_conf()")
			noError(t, pgtest.Until(func() (bool, error) {
				return s.SQL("SELECT setting = reset_val AND setting <> boot_val FROM pg_settings WHERE name = '"+name+"'") == "t", nil
			}))
			doctortest.Examine(t, t.Context(), doctortest.Open(t, s.URL())).Has(c.check, c.status, name)
			s.SQL("ALTER SYSTEM RESET " + name)
			s.SQL("SELECT pg_reload_conf()")
		}
	})

	// Promise: tables that are gone are missed.
	t.Run("tables", func(t *testing.T) {
		d := doctortest.Open(t, s.URL()+"&schema=gone")
		s.SQL("DROP SCHEMA gone CASCADE")
		doctortest.Examine(t, t.Context(), d).Has("tables", driver.Fail, "not in the schema gone")
	})

	// Promise: an old TTL that makes the grace after a crash long is pointed out.
	t.Run("grace", func(t *testing.T) {
		d := doctortest.Open(t, s.URL()+"&schema=grace")
		doctortest.Examine(t, t.Context(), d).Has("crash", driver.OK)
		s.SQL("UPDATE grace.meta SET longest = 3600000000")
		doctortest.Examine(t, t.Context(), d).Has("crash", driver.Warn, "1h0m0s")
	})
}
