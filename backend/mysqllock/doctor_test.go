package mysqllock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: the doctor says what of a server weakens a promise, and names the remedy.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Synced(), mysqltest.Config("log_bin", "binlog"), mysqltest.Config("server_id", "1"), mysqltest.Config("sync_binlog", "1"))
	r := doctortest.ExamineURL(t, s.URL())
	for _, check := range []string{"server", "version", "tables", "exchanges", "power", "cluster", "waking", "clock"} {
		r.Has(check, driver.OK)
	}
	s.Set("sync_binlog", "0")
	doctortest.ExamineURL(t, s.URL()).Has("power", driver.Warn, "power loss", "sync_binlog = 1")
	s.Set("innodb_flush_log_at_trx_commit", "2")
	doctortest.ExamineURL(t, s.URL()).Has("power", driver.Warn, "power loss", "innodb_flush_log_at_trx_commit = 1")
	s.Set("innodb_flush_log_at_trx_commit", "0")
	doctortest.ExamineURL(t, s.URL()).Has("power", driver.Warn, "a crash of the server", "longest TTL")
	s.Do("ALTER TABLE interlock_cells ENGINE=MyISAM")
	doctortest.ExamineURL(t, s.URL()).Has("tables", driver.Fail, "interlock_cells", "InnoDB")
	s.Do("DROP PROCEDURE interlock_v5_swap; ALTER TABLE interlock_cells ENGINE=InnoDB")
	d := doctortest.Open(t, s.URL()) // it makes what is missing
	s.Do("DROP PROCEDURE interlock_v5_swap")
	doctortest.Examine(t, t.Context(), d).Has("tables", driver.Fail, "EXECUTE")
	s.Kill()
	doctortest.Examine(t, t.Context(), d).Has("server", driver.Fail, "see that the server runs")
}

// Promise: if a user lacks one of the rights that programs need, the doctor names it with the
// statement that grants it, also if nothing can be opened without; and that is all it takes.
func TestDoctorNamesEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	doctortest.Open(t, s.URL())
	all := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE"}

	// fails makes sure that a check fails, and that what the doctor names grants all that is needed.
	fails := func(url, user string) {
		t.Helper()
		grants := errtest.Must(mysqllock.Grants(mysqllock.DefaultTablePrefix, user))(t)
		r, _ := doctortest.Consult(t, url)
		if !strings.Contains(fmt.Sprint(r.All), "interlock admin schema --only-grants --grant ") {
			t.Errorf("the doctor says %+v", r.All)
		}
		s.Do(grants)
		r, refused := doctortest.Consult(t, url)
		if r.Fit(); refused != nil {
			t.Error(refused)
		}
	}
	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw'")
	fails(s.URLOf("few", "pw"), "few")
	for _, right := range all {
		user := "without_" + strings.ToLower(right)
		others := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == right })
		s.Do("CREATE USER " + user + "@'%' IDENTIFIED BY 'pw'; GRANT " + strings.Join(others, ", ") + " ON locks.* TO " + user + "@'%'")
		fails(s.URLOf(user, "pw"), user)
	}
	for _, right := range []string{"UPDATE ON interlock_queues", "INSERT ON interlock_tickets", "EXECUTE ON PROCEDURE interlock_v5_begin", "EXECUTE ON PROCEDURE interlock_v5_swap"} {
		s.Do("REVOKE " + right + " FROM few@'%'")
		fails(s.URLOf("few", "pw"), "few")
	}
}

// Promise: on a server that may have forgotten something, which is looked for before anything
// else, the doctor names the rights that are missing all the same.
func TestDoctorNamesMissingRightsOnAServerThatForgets(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Lazy())
	doctortest.Open(t, s.URL())
	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO few@'%'")
	r, refused := doctortest.Consult(t, s.URLOf("few", "pw"))
	doctortest.Hints(t, refused)
	r.Has("tables", driver.Fail, "interlock admin schema --only-grants --grant few@%")
	s.Do("GRANT EXECUTE ON `locks`.* TO 'few'@'%'")
	r, refused = doctortest.Consult(t, s.URLOf("few", "pw"))
	if r.Fit(); refused != nil {
		t.Error(refused)
	}
}

// Promise: tables that were not made, or do not fit, are named with what to do.
func TestDoctorOfTablesThatAreMissing(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON locks.* TO few@'%'")
	s.Do("CREATE USER none@'%' IDENTIFIED BY 'pw'") // who sees nothing
	r, _ := doctortest.Consult(t, s.URLOf("none", "pw"))
	r.Has("server", driver.Fail, "interlock admin schema --grant USER prints what makes the tables")
	url := s.URLOf("few", "pw")
	r, refused := doctortest.Consult(t, url+"?table_prefix=printed_")
	r.Has("tables", driver.Fail, "interlock admin schema --grant few@% prints")
	if refused == nil {
		t.Error("it can be opened")
	}
	script := errtest.Must(mysqllock.Script("printed_", "few"))(t)
	s.Do(script)
	if r, refused = doctortest.Consult(t, url+"?table_prefix=printed_"); refused != nil {
		t.Error(refused)
	}
	r.Fit()
	doctortest.Open(t, s.URL())
	for layout, remedy := range map[string]string{"99": "a newer version of this program", "1": "drop the tables"} {
		s.Do("UPDATE interlock_meta SET layout = " + layout)
		r, refused = doctortest.Consult(t, url)
		if r.Has("tables", driver.Fail, "have layout "+layout, remedy); refused == nil {
			t.Error("it can be opened")
		}
	}
}

// Promise: a server that answers and cannot be used is told from one that does not answer, and
// what to do is said.
func TestDoctorOfAServerThatRefuses(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	doctortest.Open(t, s.URL())
	r, _ := doctortest.Consult(t, s.URLOf(mysqltest.User, "wrong"))
	r.Has("server", driver.Fail, "user and password of the URL")
	r, _ = doctortest.Consult(t, strings.Replace(s.URL(), "/locks", "/other", 1))
	r.Has("server", driver.Fail, "other")
	s.Set("read_only", "1")
	r, refused := doctortest.Consult(t, s.URL())
	r.Has("exchanges", driver.Fail, "read-only", "name the primary")
	if refused == nil {
		t.Error("it can be opened")
	}
	r, _ = doctortest.Consult(t, strings.Replace(s.URL(), s.Addr, s.Addr+","+s.Addr, 1))
	r.Has("server", driver.Fail, "read-only", "name the primary")
	down := testserver.NewProxy(t, s.Addr)
	down.Close()
	if all, err := interlock.Check(t.Context(), strings.Replace(s.URL(), s.Addr, down.Addr, 1)); err == nil || len(all) > 0 {
		t.Errorf("a server that is down was examined: %v, %+v", err, all)
	}
}
