package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// refused opens a URL that has to be refused, for good, and returns why.
func refused(t *testing.T, url string) string {
	t.Helper()
	d, err := openURL(t.Context(), url)
	if err == nil {
		d.Close()
		t.Fatalf("%s is not refused", url)
	}
	if !driver.IsPermanent(err) {
		t.Errorf("%s would be tried again: %v", url, err)
	}
	return err.Error()
}

// opened opens a URL for the length of a test.
var opened = doctortest.Open

func TestSchema(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("app", ""))

	// Promise: the tables are made by whoever comes first, however many come at once.
	t.Run("made once by many at once", func(t *testing.T) {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				d, err := openURL(t.Context(), s.URL()+"&schema=many")
				if err != nil {
					t.Error(err)
					return
				}
				defer d.Close()
				if _, err := d.Load(t.Context(), "a/value"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := s.SQL("SELECT count(*) FROM many.meta"); n != "1" {
			t.Errorf("%s rows in meta", n)
		}
	})

	// Promise: schema and prefix of the tables are to be chosen; several can be in one
	// schema.
	t.Run("two in one schema", func(t *testing.T) {
		a, b := opened(t, s.URL()+"&schema=both&table_prefix=a_"), opened(t, s.URL()+"&schema=both&table_prefix=b_")
		swap := driver.Swap{ID: strings.Repeat("1", 32), Name: "x/value", Value: []byte("a")}
		errtest.Must(a.Swap(t.Context(), swap))(t)
		if c, err := b.Load(t.Context(), "x/value"); err != nil || c.Version != 0 {
			t.Errorf("the other one has it, too: %v, %v", c, err)
		}
	})

	// Promise: a user who may not make tables is told so, and can use those that
	// somebody else has made from what is printed.
	t.Run("printed for somebody else to run", func(t *testing.T) {
		url := s.URLOf("app", "") + "&schema=theirs"
		if why := refused(t, url); !strings.Contains(why, "may not make them") {
			t.Error(why)
		}
		sql := errtest.Must(pglock.Schema{Name: "theirs"}.SQL("app"))(t)
		s.SQL("BEGIN;" + sql + "COMMIT;")
		useful(t, opened(t, url))
	})

	// Promise: tables of another kind are refused, not used. (Those of another version:
	// TestDoctorOfTablesThatAreMissing.)
	t.Run("of another kind", func(t *testing.T) {
		opened(t, s.URL()+"&schema=kind&durability=logged")
		if why := refused(t, s.URL()+"&schema=kind&durability=unlogged"); !strings.Contains(why, "are logged") {
			t.Error(why)
		}
		useful(t, opened(t, s.URL()+"&schema=kind"))
	})
}

// useful takes a lock and leaves it.
func useful(t *testing.T, d driver.Driver) {
	t.Helper()
	ctx := t.Context()
	a := session(t, d)
	k := acquire(t, a, "q", 1)
	noError(t, a.Leave(ctx, k, true))
	noError(t, a.Close(ctx))
}

// Promise: a server is found by the folder of its socket, written as psql wants it.
func TestServersOnSockets(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	folder := strings.ReplaceAll(s.Dir, "/", "%2F")
	port := strconv.Itoa(s.Port)
	user := "postgres://" + pgtest.Superuser + "@"
	for i, url := range []string{
		user + folder + ":" + port + "/postgres",
		user + strings.ReplaceAll(s.Dir, "/", "%2f") + ":" + port + "/postgres?application_name=x",
		user + "127.0.0.1:1," + folder + ":" + port + "/postgres",
		user + "/postgres?host=" + folder + "&port=" + port,
	} {
		d, err := openURL(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		acquire(t, session(t, d), fmt.Sprint(i), 1)
		noError(t, d.Close())
	}
}

// Promise: a host that takes connections and says nothing does not keep a client from the next
// one for long.
func TestAHostThatSaysNothing(t *testing.T) {
	t.Parallel()
	silent := errtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	s := pgtest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute)) // pgxpool gives up after two
	defer cancel()
	d := errtest.Must(openURL(ctx, fmt.Sprintf("postgres://%s@%s,127.0.0.1:%d/postgres", pgtest.Superuser, silent.Addr(), s.Port)))(t)
	acquire(t, session(t, d), "q", 1)
	noError(t, d.Close())
}

// Promise: what is wrong with a URL is said at once.
func TestWrongURLs(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://h/d?schema=A-b":        "schema:",
		"postgres://h/d?table_prefix=9":    "table_prefix:",
		"postgres://h/d?durability=maybe":  "option durability",
		"postgres://h/d?direct=gopher://x": "direct",
		"postgres://h/d?sslmode=perhaps":   "sslmode",
		"postgres://h/d?colour=red":        "colour",
	} {
		if _, err := openURL(context.Background(), url); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Promise: settings under which locks could not be kept are refused at once.
func TestUnfitServers(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Setup("CREATE ROLE strict LOGIN SUPERUSER; ALTER ROLE strict SET default_transaction_isolation = 'serializable'; "+
		"CREATE ROLE reader LOGIN SUPERUSER; ALTER ROLE reader SET default_transaction_read_only = on"))
	for user, want := range map[string]string{"strict": "read committed", "reader": "read-only"} {
		if why := refused(t, s.URLOf(user, "")); !strings.Contains(why, want) {
			t.Errorf("%s: %s", user, why)
		}
	}
	if why := refused(t, strings.Replace(s.URL(), "/postgres?", "/nowhere?", 1)); !strings.Contains(why, "the database of the URL") {
		t.Error(why)
	}
	if why := refused(t, s.URL()+fmt.Sprintf("&direct=postgres://postgres@%s/template1?sslmode=disable", s.Addr)); !strings.Contains(why, "another database") {
		t.Error(why)
	}
}

// Promise: a program that runs makes the tables again when they are not there any more, as its start
// would: a server that came back empty is used again. What was held is over, and it is told.
func TestARunningProgramMakesDroppedTablesAgain(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("app", ""))
	s.SQL("CREATE SCHEMA own AUTHORIZATION app")
	d := errtest.Must(openURL(t.Context(), s.URLOf("app", "")+"&schema=own"))(t)
	defer d.Close()
	for _, drop := range []string{"DROP SCHEMA own CASCADE; CREATE SCHEMA own AUTHORIZATION app", "DROP OWNED BY app; CREATE SCHEMA IF NOT EXISTS own AUTHORIZATION app"} {
		tabletest.DroppedTables(t, d, func() { s.SQL(drop) })
	}

	// Who may not make them is told what to do.
	s.SQL("DROP SCHEMA own CASCADE; REVOKE CREATE ON DATABASE postgres FROM app")
	if _, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl}); err == nil || !driver.IsPermanent(err) {
		t.Errorf("Open where the user may not make them: %v", err)
	} else {
		t.Log(err)
	}
}

// Promise: a member of a quorum whose server comes back empty counts again after a TTL, without a program that is newly
// started.
func TestAMemberOfAQuorumThatComesBackEmptyCountsAgain(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := errtest.Must(openURL(t.Context(), s.URL()))(t)
	q := errtest.Must(quorumlock.New(memlock.NewWorld().Driver(), memlock.NewWorld().Driver(), d))(t)
	defer q.Close()
	o := errtest.Must(q.Open(t.Context(), driver.SessionOptions{TTL: 2 * time.Second}))(t)
	defer o.Close(t.Context())
	counts := func(when string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			last := ""
			_, _ = o.Renew(t.Context(), nil) // a heartbeat
			for _, f := range q.Check(t.Context()) {
				if (f.Check == "members" || f.Check == "restarts") && f.Status != driver.OK {
					last = f.Detail
				}
			}
			if last == "" {
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: %s", when, last)
			}
		}
	}
	counts("at first")
	s.SQL("DROP SCHEMA interlock CASCADE")
	counts("after the loss of all tables")
}
