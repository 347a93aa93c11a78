package mysqllock_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

var procedures = regexp.MustCompile(`(?m)^CREATE PROCEDURE (\w+)\(`)

// stranger makes procedures that note that they were called, as a user who may do nothing else in
// the database.
func stranger(t *testing.T, s *mysqltest.Server, names ...string) {
	t.Helper()
	s.Do("CREATE USER IF NOT EXISTS stranger@'%' IDENTIFIED BY 'secret'; GRANT CREATE ROUTINE ON locks.* TO stranger@'%'; " +
		"CREATE TABLE IF NOT EXISTS called(name VARCHAR(64))")
	db := errtest.Must(sql.Open("mysql", s.DSNOf("stranger", "secret")))(t)
	defer db.Close()
	for _, name := range names {
		var parameters []string
		for n := range 64 { // as the doctor tries whether it may be called
			if strings.HasSuffix(name, "_recover") {
				break
			}
			parameters = append(parameters, fmt.Sprintf("p%d INT", n))
		}
		errtest.Must(db.ExecContext(t.Context(), "CREATE PROCEDURE "+name+"("+strings.Join(parameters, ",")+") SQL SECURITY INVOKER BEGIN INSERT INTO called VALUES ('"+name+"'); SELECT 2; END"))(t)
	}
}

// everyProcedure names them.
func everyProcedure(t *testing.T) (all []string) {
	t.Helper()
	text := errtest.Must(mysqllock.Script(mysqllock.DefaultTablePrefix))(t)
	for _, m := range procedures.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// nothingCalled makes sure that nothing of the stranger is called, by whoever opens and by the doctor.
func nothingCalled(t *testing.T, s *mysqltest.Server) {
	t.Helper()
	for range 2 { // what the first one has left changes nothing
		d, err := open(t.Context(), s.URL())
		if err == nil {
			d.Close()
			t.Fatal("procedures of a stranger are used")
		}
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "stranger@%") {
			t.Errorf("got %v, want who has made them", err)
		}
	}
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	defer db.Close()
	if _, err := mysqllock.New(t.Context(), db); err == nil || !strings.Contains(err.Error(), "stranger@%") {
		t.Errorf("the program's pool: %v", err)
	}
	r, err := doctortest.Consult(t, s.URL())
	if err == nil {
		t.Error("it can be opened")
	}
	r.Has("tables", driver.Fail, "stranger@%", "drop the procedure", "runs with the rights of this user")
	if called := s.Do("SELECT DISTINCT name FROM called"); called != "" {
		t.Errorf("called: %s", called)
	}
}

// Promise: procedures of somebody who was there first, and may do no more than make some, are
// never called.
func TestProceduresOfAStranger(t *testing.T) {
	t.Parallel()
	all := everyProcedure(t)
	for name, these := range map[string][]string{"all": all, "some": {"interlock_v5_swap", "INTERLOCK_V5_join"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, lazy := range []bool{false, true} { // which calls a procedure on each new connection
				var options []mysqltest.Option
				if lazy {
					options = append(options, mysqltest.Lazy())
				}
				s := mysqltest.Start(t, options...)
				stranger(t, s, these...)
				nothingCalled(t, s)
				script := errtest.Must(mysqllock.Script(mysqllock.DefaultTablePrefix))(t)
				if _, err := s.Query(script); err == nil {
					t.Error("an administrator is not told")
				}
				nothingCalled(t, s)
				for _, name := range all {
					s.Do("DROP PROCEDURE IF EXISTS " + name)
				}
				opened(t, s.URL())
			}
		})
	}
	t.Run("one that was dropped", func(t *testing.T) {
		t.Parallel()
		s := mysqltest.Start(t)
		opened(t, s.URL())
		s.Do("DROP PROCEDURE interlock_v5_swap")
		stranger(t, s, "interlock_v5_swap")
		nothingCalled(t, s)
	})
}

// Promise: procedures that an administrator has made are used by who may only execute them, and
// the doctor says whose they are.
func TestProceduresOfAnAdministrator(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	script := errtest.Must(mysqllock.Script(mysqllock.DefaultTablePrefix, "few"))(t)
	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw';\n" + script)
	few := s.URLOf("few", "pw")
	handsOver(t, opened(t, few), opened(t, few), "q")
	handsOver(t, opened(t, s.URL()), opened(t, s.URL()), "q")
	for _, url := range []string{few, s.URL()} {
		r := doctortest.ExamineURL(t, url)
		r.Fit()
		r.Has("tables", driver.Warn, "made by root@localhost", "not this user")
	}
	stranger(t, s)
	opened(t, few)
}
