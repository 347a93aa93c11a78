package pglock_test

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/testserver"
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

// Promise: if a user lacks one of the rights that programs need, the doctor names it with the
// statement that grants it, also if nothing can be opened without; and that is all it takes.
func TestDoctorNamesEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable(), pgtest.User("app", ""))
	doctortest.Open(t, s.URL())
	all, err := pglock.Schema{}.Grants("app")
	noError(t, err)
	s.SQL(all)
	s.SQL("GRANT CONNECT ON DATABASE " + pgtest.Database + " TO app")
	url := s.URLOf("app", "")
	lacks := func(right, check, says, cure string) {
		t.Helper()
		s.SQL("REVOKE " + right + " FROM PUBLIC, app")
		doctortest.Advised(t, url, check, says, func(string) string { return s.SQL(cure) })
	}
	const prints = "interlock admin schema --only-grants --grant app"
	lacks("CONNECT ON DATABASE "+pgtest.Database, "server", `GRANT CONNECT ON DATABASE "`+pgtest.Database+`" TO "app"`, "GRANT CONNECT ON DATABASE "+pgtest.Database+" TO app")
	lacks("USAGE ON SCHEMA interlock", "exchanges", prints, all)
	for _, table := range []string{"queue", "ticket", "session"} {
		lacks("UPDATE ON interlock."+table, "exchanges", prints, all)
	}
	for _, function := range []string{"begin", "join"} {
		lacks("EXECUTE ON FUNCTION interlock."+function, "exchanges", prints, all+"; GRANT EXECUTE ON FUNCTION interlock."+function+" TO app")
	}

	// Several are named together, and what is printed grants all.
	s.SQL("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA interlock FROM PUBLIC; CREATE ROLE other LOGIN; GRANT CONNECT ON DATABASE " + pgtest.Database + " TO other")
	r, refused := doctortest.Consult(t, s.URLOf("other", ""))
	if refused == nil {
		t.Error("a user without rights can open it")
	}
	r.Has("exchanges", driver.Fail, "permission denied", "interlock admin schema --only-grants --grant other")
	all = errtest.Must((pglock.Schema{}).Grants("other"))(t)
	s.SQL(all)
	r, refused = doctortest.Consult(t, s.URLOf("other", ""))
	if r.Only(); refused != nil {
		t.Error(refused)
	}
}

// Promise: tables that were not made, or do not fit, are named with what to do.
func TestDoctorOfTablesThatAreMissing(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable(), pgtest.User("app", ""))
	url := s.URLOf("app", "")
	r, refused := doctortest.Consult(t, url+"&schema=printed")
	r.Has("tables", driver.Fail, "not in the schema printed", "interlock admin schema --grant app")
	if refused == nil {
		t.Error("it can be opened")
	}
	sql := errtest.Must(pglock.Schema{Name: "printed"}.SQL("app"))(t)
	s.SQL(sql)
	if r, refused = doctortest.Consult(t, url+"&schema=printed"); refused != nil {
		t.Error(refused)
	}
	r.Fit()
	doctortest.Open(t, s.URL())
	s.SQL("GRANT USAGE ON SCHEMA interlock TO app; GRANT SELECT ON interlock.meta TO app")
	for version, remedy := range map[string]string{"99": "a newer version of this program", "1": "drop the schema"} {
		s.SQL("UPDATE interlock.meta SET version = " + version)
		r, refused = doctortest.Consult(t, url)
		if r.Has("tables", driver.Fail, "have version "+version, remedy); refused == nil {
			t.Error("it can be opened")
		}
	}
	r, _ = doctortest.Consult(t, url+"&schema=printed&durability=logged")
	r.Has("tables", driver.Fail, "are unlogged", "another schema")
	s.SQL("DROP FUNCTION printed.joins")
	r, refused = doctortest.Consult(t, url+"&schema=printed")
	if r.Has("tables", driver.Fail, "lacks the function joins", "drop the schema"); refused == nil || !driver.IsPermanent(refused) {
		t.Errorf("it can be opened, or is tried again: %v", refused)
	}
}

// Promise: a server that answers and cannot be used is told from one that does not answer, and
// what to do is said.
func TestDoctorOfAServerThatRefuses(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable(), pgtest.User("app", ""))
	doctortest.Open(t, s.URL())
	all := errtest.Must(pglock.Schema{}.Grants("app"))(t)
	s.SQL(all)
	url := s.URLOf("app", "")

	s.SQL("ALTER ROLE app SET default_transaction_read_only = on")
	doctortest.Advised(t, url, "server", `ALTER ROLE "app" SET default_transaction_read_only = off`, s.SQL)
	s.SQL("ALTER ROLE app SET default_transaction_isolation = 'serializable'")
	doctortest.Advised(t, url, "server", `ALTER ROLE "app" SET default_transaction_isolation = 'read committed'`, s.SQL)
	s.SQL("ALTER ROLE app NOLOGIN")
	r, _ := doctortest.Consult(t, url)
	r.Has("server", driver.Fail, "not permitted to log in", "user and password of the URL")
	r, _ = doctortest.Consult(t, strings.Replace(s.URL(), s.Addr+"/"+pgtest.Database, s.Addr+"/other", 1))
	r.Has("server", driver.Fail, `"other" does not exist`)

	standby := pgtest.StartStandby(t, s)
	doctortest.ExamineURL(t, s.URL()).Has("standbys", driver.Warn, "1 standbys", "synchronous_standby_names")
	r, refused := doctortest.Consult(t, standby.URL())
	r.Has("server", driver.Fail, "standby", "name the primary")
	if refused == nil {
		t.Error("a standby can be opened")
	}
	r, _ = doctortest.Consult(t, strings.Replace(standby.URL(), standby.Addr, standby.Addr+","+standby.Addr, 1))
	r.Has("server", driver.Fail, "read only", "name the primary")

	r, refused = doctortest.Consult(t, strings.Replace(s.URL(), s.Addr, starting(t), 1))
	r.Has("server", driver.Fail, "starting up")
	if !driver.IsPassing(refused) {
		t.Errorf("whoever opens it does not ask again: %v", refused)
	}

	down := pgtest.NewProxy(t, s.Addr)
	down.Close()
	if all, err := interlock.Check(t.Context(), strings.Replace(s.URL(), s.Addr, down.Addr, 1)); err == nil || len(all) > 0 {
		t.Errorf("a server that is down was examined: %v, %+v", err, all)
	}
}

// starting is the address of a server that is never done with starting.
func starting(t *testing.T) (addr string) {
	t.Helper()
	return testserver.Answer(t, func(c net.Conn) {
		b := pgproto3.NewBackend(c, c)
		if _, err := b.ReceiveStartupMessage(); err == nil {
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"})
			_ = b.Flush()
		}
	})
}
