package doctor_test

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: if a user lacks one of the rights that programs need, the doctor names it with the
// statement that grants it, also if nothing can be opened without; and that is all it takes.
func TestDoctorNamesEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	doctortest.Open(t, s.URL())
	all := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE"}

	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw'")
	url := s.URLOf("few", "pw")
	doctortest.Advised(t, url, "server", "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON `locks`.* TO 'few'@'%'", s.Do)
	for _, right := range all {
		s.Do("REVOKE " + right + " ON locks.* FROM few@'%'")
		doctortest.Advised(t, url, "rights", "GRANT "+right+" ON `locks`.* TO 'few'@'%'", s.Do)
	}
	s.Do("REVOKE SELECT, EXECUTE ON locks.* FROM few@'%'")
	doctortest.Advised(t, url, "rights", "GRANT SELECT, EXECUTE ON `locks`.* TO 'few'@'%'", s.Do)

	// The same for a user of no more than these tables and procedures.
	s.Do("CREATE USER limited@'%' IDENTIFIED BY 'pw'")
	grants, err := mysqllock.Grants(mysqllock.DefaultTablePrefix, "limited")
	if err != nil {
		t.Fatal(err)
	}
	s.Do(grants)
	url = s.URLOf("limited", "pw")
	r, refused := doctortest.Consult(t, url)
	if r.Fit(); refused != nil {
		t.Error(refused)
	}
	r.Has("rights", driver.OK, "limited@%")
	for i, table := range strings.Fields(s.Do("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")) {
		right := all[i%4]
		s.Do("REVOKE " + right + " ON " + table + " FROM limited@'%'")
		doctortest.Advised(t, url, "rights", "GRANT "+right+" ON "+table+" TO 'limited'@'%'", s.Do)
	}
	for _, name := range []string{"hello", "begin", "swap", "grant", "recover"} {
		on := " ON PROCEDURE interlock_v3_" + name
		s.Do("REVOKE EXECUTE" + on + " FROM limited@'%'")
		doctortest.Advised(t, url, "rights", "GRANT EXECUTE"+on+" TO 'limited'@'%'", s.Do)
	}
	s.Do("REVOKE INSERT, DELETE ON interlock_meta FROM limited@'%'; REVOKE EXECUTE ON PROCEDURE interlock_v3_end FROM limited@'%'")
	r, _ = doctortest.Consult(t, url)
	r.Has("rights", driver.Fail, "INSERT on interlock_meta; DELETE on interlock_meta; EXECUTE on interlock_v3_end",
		"GRANT EXECUTE ON PROCEDURE interlock_v3_end TO 'limited'@'%'; GRANT INSERT, DELETE ON interlock_meta TO 'limited'@'%'", "interlock schema --only-grants --grant limited@%")
}

// Promise: on a server that may have forgotten something, which is looked for before anything
// else, the doctor names the rights that are missing all the same.
func TestDoctorNamesMissingRightsOnAServerThatForgets(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Lazy())
	doctortest.Open(t, s.URL())
	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO few@'%'")
	doctortest.Advised(t, s.URLOf("few", "pw"), "rights", "GRANT EXECUTE ON `locks`.* TO 'few'@'%'", s.Do)
}

// Promise: tables that were not made, or do not fit, are named with what to do.
func TestDoctorOfTablesThatAreMissing(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON locks.* TO few@'%'")
	url := s.URLOf("few", "pw")
	r, refused := doctortest.Consult(t, url+"?table_prefix=printed_")
	r.Has("tables", driver.Fail, "interlock schema --grant few@% prints")
	if refused == nil {
		t.Error("it can be opened")
	}
	script, err := mysqllock.Script("printed_", "few")
	if err != nil {
		t.Fatal(err)
	}
	s.Do(script)
	if r, refused = doctortest.Consult(t, url+"?table_prefix=printed_"); refused != nil {
		t.Error(refused)
	}
	r.Fit()
	doctortest.Advised(t, url, "tables", "GRANT CREATE, CREATE ROUTINE, SELECT, INSERT, UPDATE, DELETE, EXECUTE ON `locks`.* TO 'few'@'%'", s.Do)
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
	r.Has("writing", driver.Fail, "read-only", "name the primary")
	r.Has("rights", driver.OK)
	if refused == nil {
		t.Error("it can be opened")
	}
	r, _ = doctortest.Consult(t, strings.Replace(s.URL(), s.Addr, s.Addr+","+s.Addr, 1))
	r.Has("server", driver.Fail, "read-only", "name the primary")
	down := mysqltest.NewProxy(t, s)
	down.Close()
	if all, err := interlock.Examine(t.Context(), strings.Replace(s.URL(), s.Addr, down.Addr, 1)); err == nil || len(all) > 0 {
		t.Errorf("a server that is down was examined: %v, %+v", err, all)
	}
}
