package pglock_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: connections use TLS as the URL says, and passwords; what is wrong with
// either is said.
func TestTLSAndPasswords(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.TLS(), pgtest.Passwords(),
		pgtest.Setup("ALTER ROLE postgres PASSWORD 'secret'"))
	useful(t, opened(t, s.URLOf("postgres", "secret")))
	if n := s.SQL("SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'interlock' AND NOT s.ssl"); n != "0" {
		t.Errorf("%s connections without TLS", n)
	}

	if why := refused(t, s.URLOf("postgres", "wrong")); !strings.Contains(why, "user and password of the URL") {
		t.Error(why)
	} else if strings.Contains(why, "wrong") {
		t.Errorf("the password is shown: %s", why)
	}
	set := func(q url.Values) string {
		u := errtest.Must(url.Parse(s.URLOf("postgres", "secret")))(t)
		u.RawQuery = q.Encode()
		return u.String()
	}
	if why := refused(t, set(url.Values{"sslmode": {"disable"}})); !strings.Contains(why, "pg_hba.conf of the server, which may want TLS: sslmode=verify-full") {
		t.Error(why)
	}
	if why := refused(t, set(url.Values{"sslmode": {"verify-full"}})); !strings.Contains(why, "sslrootcert=") {
		t.Error(why)
	}
	plain := pgtest.Start(t)
	if why := refused(t, strings.Replace(plain.URL(), "sslmode=disable", "sslmode=require", 1)); !strings.Contains(why, "sslmode=disable") {
		t.Error(why)
	}
}

// Promise: who is refused because of a limit of connections, or because nothing can be
// changed, is told which setting it may be, and tries again.
func TestRefusalsThatPassNameTheirSetting(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	useful(t, opened(t, s.URL()))
	s.SQL("CREATE ROLE few LOGIN CONNECTION LIMIT 0")
	d, err := openURL(t.Context(), strings.Replace(s.URLOf("few", ""), "sslmode=disable", "sslmode=prefer", 1))
	if err == nil {
		_ = d.Close()
		t.Fatal("a role that may have no connection has one")
	}
	passes(t, err, "CONNECTION LIMIT of the role")
	if text := err.Error(); strings.ContainsAny(text, "\n\t") || strings.Contains(text, "TLS") || strings.Count(text, "too many") != 1 {
		t.Errorf("%q", text)
	}

	d = opened(t, s.URL())
	a := session(t, d)
	s.SQL("ALTER SYSTEM SET default_transaction_read_only = on")
	s.SQL("SELECT pg_reload_conf()")
	busy.Until(t, "transactions are read-only", func() bool { return s.SQL("SHOW default_transaction_read_only") == "on" })
	busy.Until(t, "a connection has heard of it", func() bool {
		_, err = a.Join(t.Context(), request("q", 1))
		return err != nil
	})
	passes(t, err, "default_transaction_read_only")
}

// Promise: an error of several hosts is one line. That a server does without TLS, where the
// URL allows that, is no reason to give up while another one is down and a third a standby.
func TestSeveralHostsOfWhichNoneIsThePrimary(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	standby, down := pgtest.StartStandby(t, s), pgtest.NewProxy(t, s.Addr)
	down.Close()
	hosts := strings.NewReplacer(s.Addr, down.Addr+","+standby.Addr, "sslmode=disable", "sslmode=prefer")
	_, err := openURL(t.Context(), hosts.Replace(s.URL()))
	if err == nil {
		t.Fatal("a standby is taken for the primary")
	}
	passes(t, err, standby.Addr)
	if text := err.Error(); strings.ContainsAny(text, "\n\t") || strings.Contains(text, "TLS") || strings.Count(text, "dial error") != 1 {
		t.Errorf("%q", text)
	}
	strict := strings.NewReplacer(s.Addr, standby.Addr+","+s.Addr, "sslmode=disable", "sslmode=require")
	if why := refused(t, strict.Replace(s.URL())); !strings.Contains(why, "(sslmode=disable does without TLS)") {
		t.Error(why)
	}
}

func passes(t *testing.T, err error, what string) {
	t.Helper()
	if driver.IsPermanent(err) || !strings.Contains(err.Error(), what) {
		t.Errorf("%v, permanent %v; it must name %q, and pass", err, driver.IsPermanent(err), what)
	}
}

// Promise: settings that an administrator gives a role while it works, and that make
// transactions fail or connections end, cost time and nothing else.
func TestSettingsOfTheRole(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Setup("CREATE ROLE worker LOGIN SUPERUSER"))
	all := clients(t, 3, s.URLOf("worker", ""), interlock.TTL(5*time.Second))
	showTables(t, s)
	load := startLoad(t, all, 2, nil)
	for _, set := range []string{
		"default_transaction_isolation = 'serializable'",
		"default_transaction_isolation = 'repeatable read'",
		"statement_timeout = '30ms'",
		"lock_timeout = '5ms'",
		"idle_in_transaction_session_timeout = '1ms'",
		"idle_session_timeout = '50ms'",
		"synchronous_commit = off",
	} {
		s.SQL("ALTER ROLE worker RESET ALL; ALTER ROLE worker SET " + set)
		s.Terminate(ours) // who connects again has it
		load.goesOn()
		load.goesOn()
	}
	s.SQL("ALTER ROLE worker RESET ALL")
	s.Terminate(ours)
	load.end()
}
