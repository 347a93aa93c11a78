package pglock_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/pgtest"
)

func init() { doctor.SlowTrip = time.Hour }

// finding is what doctor says about one thing.
func finding(t *testing.T, d driver.Driver, check string) driver.Finding {
	t.Helper()
	all := d.Check(t.Context())
	i := slices.IndexFunc(all, func(f driver.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("nothing is said about %s: %v", check, all)
	}
	if f := all[i]; f.Status != driver.OK && (f.Promise == "" || f.Remedy == "") {
		t.Errorf("what is affected, or what to do, is not said: %+v", f)
	}
	return all[i]
}

// says fails unless the finding is of this status and contains this text.
func says(t *testing.T, f driver.Finding, status driver.Status, text string) {
	t.Helper()
	if f.Status != status || !strings.Contains(f.Detail+" "+f.Remedy, text) {
		t.Errorf("%s: %s, %s, %s: want %s, and %q", f.Check, f.Status, f.Detail, f.Remedy, status, text)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable(), pgtest.User("app", ""))

	// Promise: a server as it comes, and a user with the rights that are printed, are
	// fit.
	t.Run("fit", func(t *testing.T) {
		d := opened(t, s.URL())
		for _, f := range d.Check(t.Context()) {
			if f.Status != driver.OK {
				t.Errorf("%+v", f)
			}
		}
		s.SQL(`GRANT USAGE ON SCHEMA interlock TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA interlock TO app`)
		for _, f := range opened(t, s.URLOf("app", "")).Check(t.Context()) {
			if f.Status != driver.OK {
				t.Errorf("as app: %+v", f)
			}
		}
	})

	// Promise: rights that are missing are named, with what grants them.
	t.Run("rights", func(t *testing.T) {
		d := opened(t, s.URLOf("app", ""))
		s.SQL(`REVOKE UPDATE ON interlock.queue FROM app`)
		says(t, finding(t, d, "rights"), driver.Fail, `UPDATE ON "interlock"."queue"`)
		s.SQL(`GRANT UPDATE ON interlock.queue TO app`)
	})

	// Promise: settings that weaken promises are found.
	t.Run("settings", func(t *testing.T) {
		for _, c := range []struct {
			setting, check string
			status         driver.Status
		}{
			{"fsync = off", "disk", driver.Fail},
			{"lock_timeout = '900ms'", "timeouts", driver.Warn}, // nobody waits for a lock here
			{"autovacuum = off", "vacuum", driver.Warn},
		} {
			name, _, _ := strings.Cut(c.setting, " ")
			s.SQL("ALTER SYSTEM SET " + c.setting)
			s.SQL("SELECT pg_reload_conf()")
			if err := pgtest.Until(func() (bool, error) {
				return s.SQL("SELECT setting = reset_val AND setting <> boot_val FROM pg_settings WHERE name = '"+name+"'") == "t", nil
			}); err != nil {
				t.Fatal(err)
			}
			says(t, finding(t, opened(t, s.URL()), c.check), c.status, name)
			s.SQL("ALTER SYSTEM RESET " + name)
			s.SQL("SELECT pg_reload_conf()")
		}
	})

	// Promise: tables that are gone are missed.
	t.Run("tables", func(t *testing.T) {
		d := opened(t, s.URL()+"&schema=gone")
		s.SQL("DROP SCHEMA gone CASCADE")
		says(t, finding(t, d, "tables"), driver.Fail, "not in the schema gone")
		says(t, finding(t, d, "writing"), driver.Fail, "not there any more")
	})

	// Promise: an old TTL that makes the grace after a crash long is pointed out.
	t.Run("grace", func(t *testing.T) {
		d := opened(t, s.URL()+"&schema=grace")
		says(t, finding(t, d, "crash"), driver.OK, "after a crash")
		s.SQL("UPDATE grace.meta SET longest = 3600000000")
		says(t, finding(t, d, "crash"), driver.Warn, "1h0m0s")
	})
}

// Promise: a pooler without a direct URL is found, and waiters are served all the
// same.
func TestPoolerWithoutADirectURL(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	p := pgtest.StartPooler(t, s)
	d := opened(t, p.URL())
	says(t, finding(t, d, "news"), driver.Warn, "direct=")
	handOver(t, d)

	direct := opened(t, p.URL()+"&direct="+strings.ReplaceAll(s.URL(), "&", "%26"))
	says(t, finding(t, direct, "news"), driver.OK, "beside the pooler")
	handOver(t, direct)
}

// handOver hands a lock from one session to the next, and back.
func handOver(t *testing.T, d driver.Driver) {
	t.Helper()
	a, b := session(t, d), session(t, d)
	for range 3 {
		held := acquire(t, a, "q", 1)
		waits := join(t, b, request("q", 1))
		if waits.Held {
			t.Fatal("two hold")
		}
		got := make(chan driver.Ticket, 1)
		go func() {
			k, err := b.Await(t.Context(), waits)
			if err != nil {
				t.Errorf("Await: %v", err)
			}
			got <- k
		}()
		if err := a.Leave(t.Context(), held, true); err != nil {
			t.Fatal(err)
		}
		if k := <-got; !k.Held || k.Token <= held.Token {
			t.Fatalf("after %+v: %+v", held, k)
		}
		a, b = b, a
		if err := a.Leave(t.Context(), waits, true); err != nil {
			t.Fatal(err)
		}
	}
}

// Promise: a standby is refused, with what to do; with both hosts the primary is found.
func TestStandby(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	standby := pgtest.StartStandby(t, s)
	useful(t, opened(t, s.URL()))
	if why := refused(t, standby.URL()); !strings.Contains(why, "standby") {
		t.Error(why)
	}
	both := strings.Replace(s.URL(), s.Addr, standby.Addr+","+s.Addr, 1)
	useful(t, opened(t, both))
}
