package mysqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// handsOver makes sure that a lock goes from one client to another that waits, sooner than a heartbeat would find out,
// and that heartbeats find both. Both are to be of one user: those of another one cannot wake it.
func handsOver(t *testing.T, one, other driver.Driver, queue string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	o := driver.SessionOptions{TTL: 10 * time.Minute}
	a := errtest.Must(one.Open(ctx, o))(t)
	defer a.Close(ctx)
	b := errtest.Must(other.Open(ctx, o))(t)
	defer b.Close(ctx)
	for n := range 2 { // the second time it listens from the beginning
		held := joined(t, a, mutex(queue, 2*n+1), true)
		next := joined(t, b, mutex(queue, 2*n+2), false)
		for of, ticket := range map[*driver.Opened]driver.Ticket{a: held, b: next} {
			if all, err := of.Renew(ctx, []driver.Ticket{ticket}); err != nil || len(all) != 1 || all[0].State != driver.Kept {
				t.Fatal(all, err)
			}
		}
		got := make(chan error, 1)
		go func() {
			_, err := b.Await(ctx, next)
			got <- err
		}()
		noError(t, a.Leave(ctx, held, true))
		if err := <-got; err != nil {
			t.Fatalf("who waits is not told, time %d: %v", n+1, err)
		}
		noError(t, b.Leave(ctx, next, true))
	}
}

// opened opens a URL for the length of a test.
var opened = doctortest.Open

// Promise: a user that may not make tables or procedures uses those that somebody else
// has made with the statements that are printed.
func TestUserWithFewRights(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	s.Do("CREATE USER few@'%' IDENTIFIED BY 'pw'; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON locks.* TO few@'%'")
	few := s.URLOf("few", "pw")
	_, err := open(t.Context(), few)
	if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "rights") {
		t.Fatalf("got %v, want what is missing", err)
	}
	script := errtest.Must(mysqllock.Script(mysqllock.DefaultTablePrefix))(t)
	s.Do(script)
	handsOver(t, opened(t, few), opened(t, few), "few")
}

// Promise: clients that start at once make the tables once.
func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			d, err := open(t.Context(), s.URL())
			if err != nil {
				t.Error(err)
				return
			}
			d.Close()
		})
	}
	all.Wait()
	handsOver(t, opened(t, s.URL()), opened(t, s.URL()), "many")
}

// Promise: settings of a server and of sessions that programs choose change nothing.
func TestSettings(t *testing.T) {
	t.Parallel()
	limit := mysqltest.Config("max_statement_time", "3")
	if !mysqltest.MariaDB() {
		limit = mysqltest.Config("max_execution_time", "3000")
	}
	all := [][]mysqltest.Option{
		{mysqltest.Config("sql_mode", "ANSI", "TRADITIONAL", "NO_BACKSLASH_ESCAPES", "PAD_CHAR_TO_FULL_LENGTH"), mysqltest.Config("transaction_isolation", "READ-COMMITTED")},
		{mysqltest.Config("sql_mode", ""), mysqltest.Config("transaction_isolation", "SERIALIZABLE"), mysqltest.Config("default_time_zone", "+05:30")},
		{mysqltest.Config("autocommit", "0"), mysqltest.Config("wait_timeout", "2"), limit},
		{mysqltest.Config("log_bin", "binlog"), mysqltest.Config("server_id", "1"), mysqltest.Config("binlog_format", "STATEMENT"), mysqltest.Config("character_set_server", "latin1")},
	}
	if !mysqltest.MariaDB() {
		all = append(all,
			[]mysqltest.Option{mysqltest.Config("gtid_mode", "ON"), mysqltest.Config("enforce_gtid_consistency", "ON"), mysqltest.Config("sql_require_primary_key", "ON")},
			[]mysqltest.Option{mysqltest.Config("sql_generate_invisible_primary_key", "ON"), mysqltest.Config("partial_revokes", "ON"), mysqltest.Config("lower_case_table_names", "0")})
	}
	for _, settings := range all {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := mysqltest.Start(t, settings...)
			one, other := opened(t, s.URL()), opened(t, s.URL())
			for i := range 5 {
				handsOver(t, one, other, fmt.Sprint("é\\'\"", i))
			}
		})
	}
}

// Promise: the program's own pool serves, and is left open.
func TestOwnPool(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	for _, options := range []string{"", "?interpolateParams=true&parseTime=true&clientFoundRows=true"} {
		db := errtest.Must(sql.Open("mysql", s.DSN()+options))(t)
		defer db.Close()
		one := errtest.Must(mysqllock.New(t.Context(), db, mysqllock.TablePrefix("own_")))(t)
		other := errtest.Must(mysqllock.New(t.Context(), db, mysqllock.TablePrefix("own_")))(t)
		handsOver(t, one, other, "own"+options)
		one.Close()
		other.Close()
		errtest.Is(t, db.Ping(), nil)
	}
	dirty := "tx_isolation"
	if !mysqltest.MariaDB() {
		dirty = "transaction_isolation"
	}
	for options, want := range map[string]string{"?autocommit=0": "autocommit=1", "?" + dirty + "=%27READ-UNCOMMITTED%27": dirty + "='READ-COMMITTED'"} {
		db := errtest.Must(sql.Open("mysql", s.DSN()+options))(t)
		defer db.Close()
		if _, err := mysqllock.New(t.Context(), db); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want what to add", options, err)
		}
	}
}

// Promise: a heartbeat over the program's own pool keeps all its tickets, however many they are.
func TestOwnPoolKeepsAllItsTickets(t *testing.T) {
	t.Parallel()
	_, one := idle(t, mysqltest.Start(t), 4, 10*time.Minute)
	var all []driver.Ticket
	for n := range 5 {
		r := mutex(fmt.Sprint("é", n), 0)
		r.ID = exchange.NewID()
		all = append(all, errtest.Must(one.Join(t.Context(), r))(t))
		for _, r := range errtest.Must(one.Renew(t.Context(), all))(t) {
			if r.State != driver.Kept {
				t.Errorf("of %d tickets, that of %s is in state %v", n+1, r.Queue, r.State)
			}
		}
	}
}

// Promise: on a server whose users read what others have not committed, a ticket is not
// granted before that is committed.
func TestUncommittedGrant(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Config("transaction_isolation", "READ-UNCOMMITTED"))
	_, one := session(t, s.URL())
	_, other := session(t, s.URL())
	errtest.Must(one.Join(t.Context(), mutex("q", 1)))(t)
	waits := joined(t, other, mutex("q", 2), false)
	defer uncommitted(t, s, "UPDATE interlock_queues SET granted = last")()
	errtest.Must(other.Renew(t.Context(), []driver.Ticket{waits}))(t) // it looks at the ticket
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := other.Await(ctx, waits); err == nil {
		t.Errorf("a ticket that may still not be granted is %+v", got)
	}
}

// Promise: connections are encrypted and checked as the URL says. An error says what to write.
func TestTLS(t *testing.T) {
	t.Parallel()
	// What servers ask of users beside the passwords that their clients hash in the usual way.
	plugin, other := mysqltest.Config("plugin_load_add", "auth_ed25519"), "VIA ed25519 USING PASSWORD('pw')"
	if !mysqltest.MariaDB() {
		plugin, other = mysqltest.Config("skip_name_resolve"), "WITH caching_sha2_password BY 'pw'"
	}
	s := mysqltest.Start(t, mysqltest.TLS(), mysqltest.Config("require_secure_transport", "ON"), plugin)
	ca := url.QueryEscape(s.CA)
	handsOver(t, opened(t, s.URL()+"?ca="+ca), opened(t, s.URL()+"?tls=skip-verify"), "tls")
	s.Do("CREATE USER cert@'%' IDENTIFIED BY 'pw' REQUIRE X509; GRANT ALL ON locks.* TO cert@'%'; " +
		"CREATE USER ed@'%' IDENTIFIED " + other + "; GRANT ALL ON locks.* TO ed@'%'")
	opened(t, s.URLOf("cert", "pw")+"?ca="+ca+"&cert="+url.QueryEscape(s.ClientCert)+"&key="+url.QueryEscape(s.ClientKey))
	opened(t, s.URLOf("ed", "pw")+"?ca="+ca)
	for wrong, says := range map[string]string{
		s.URL(): "tls=true", s.URL() + "?tls=true": "?ca=…",
		s.URLOf("cert", "pw") + "?ca=" + ca: "user and password", s.URLOf("ed", "other") + "?ca=" + ca: "user and password",
	} {
		d, err := open(t.Context(), wrong)
		if err == nil {
			d.Close()
			t.Errorf("%s is let in", wrong)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want: %s", wrong, err, says)
		}
	}
}

// Promise: a wrong URL is refused with the reason, and a password is never shown.
func TestWrongURLs(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	at := "mysql://app:secret@" + s.Addr
	for wrong, says := range map[string]string{
		at + "/":      "names no database",
		at + "/other": "database of the URL",
		"mysql://app:secre7@" + s.Addr + "/locks": "user and password",
		at + "/locks?table_prefix=a-b":            "table_prefix",
		at + "/locks?tls=maybe":                   "option tls",
		at + "/locks?ca=/nowhere":                 "ca",
		at + "/locks?cert=x":                      "belong together",
		at + "/locks?nonsense=1":                  "nonsense",
		at + "/locks?galera=two":                  "one-node",
		"mysql://app:secret@" + s.Addr + ",127.0.0.1:1/locks?galera=one-node": "several hosts",
		at + "/locks?max_connections=2":                                       "at least 4",
	} {
		_, err := open(t.Context(), wrong)
		if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secre") {
			t.Errorf("%s: got %v, want %q", wrong, err, says)
		}
	}
	if _, err := open(t.Context(), at+"/locks?tls=true"); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("without TLS: %v", err)
	}
}

// Promise: of several hosts the one that can be written to is used.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	reader, writer := mysqltest.Start(t, mysqltest.Config("read_only", "ON")), mysqltest.Start(t)
	u := "mariadb://app:secret@127.0.0.1:1," + reader.Addr + "," + writer.Addr + "/locks"
	handsOver(t, opened(t, u), opened(t, writer.URL()), "several")
}

// Promise: a prefix may have every character that it is allowed: what is made with it, and the rights for
// that, are those of any other prefix.
func TestPrefixWithADollar(t *testing.T) {
	for name, of := range map[string]func(prefix string) (string, error){
		"script": func(prefix string) (string, error) { return mysqllock.Script(prefix) },
		"grants": func(prefix string) (string, error) { return mysqllock.Grants(prefix, "app") },
	} {
		plain := errtest.Must(of("plain_"))(t)
		got := errtest.Must(of("a$1_"))(t)
		if plain == "" || got != strings.ReplaceAll(plain, "plain_", "a$1_") {
			t.Errorf("%s: it is another one with a dollar:\n%s", name, got)
		}
	}
}
