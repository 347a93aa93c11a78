package mysqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: on a server that has as many connections as it allows, a client makes do with
// those that it has: what is held is renewed and released, others are granted. Who comes
// anew is told which setting is the limit.
func TestAServerWithoutFreeConnections(t *testing.T) {
	t.Parallel()
	for limit, names := range map[string]string{
		"ALTER USER app WITH MAX_USER_CONNECTIONS 1": "MAX_USER_CONNECTIONS",
		"SET GLOBAL max_user_connections = 1":        "max_user_connections",
		"SET GLOBAL max_connections = 10":            "max_connections",
	} {
		s := mysqltest.Start(t, mysqltest.Config("max_user_connections", "1000"))
		ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
		defer cancel()
		_, one := session(t, s.URL())
		held := errtest.Must(one.Join(ctx, mutex("held", 1)))(t)
		s.Do(limit)
		if names == "max_connections" { // the server has ten at least
			fill(ctx, t, s)
		}
		beat := make(chan error, 1)
		calls := make(chan error, 20)
		for n := range cap(calls) { // each wants a connection at the same time
			go func() {
				tk, err := one.Join(ctx, mutex(fmt.Sprint("q/", n), n+2))
				if err == nil {
					err = one.Leave(ctx, tk, true)
				}
				calls <- err
			}()
		}
		go func() {
			_, err := one.Renew(ctx, []driver.Ticket{held})
			if err == nil {
				err = one.Leave(ctx, held, true)
			}
			beat <- err
		}()
		if err := <-beat; err != nil {
			t.Errorf("%s: what is held: %v", limit, err)
		}
		for range cap(calls) {
			if err := <-calls; err != nil {
				t.Errorf("%s: a call: %v", limit, err)
			}
		}
		if d, err := open(ctx, apart(s.URL(), 1)); err == nil {
			d.Close()
			t.Errorf("%s: another client is let in", limit)
		} else if !strings.Contains(err.Error(), names) || driver.IsPermanent(err) {
			t.Errorf("%s: the limit is not named, or taken for one that stays: %v", limit, err)
		}
	}
}

// fill takes all connections that the server has left.
func fill(ctx context.Context, t *testing.T, s *mysqltest.Server) {
	t.Helper()
	for {
		db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
		t.Cleanup(func() { db.Close() })
		conn, err := db.Conn(ctx)
		var refused *mysql.MySQLError
		switch {
		case errors.As(err, &refused) && refused.Number == 1040: // too many connections
			return
		case err != nil:
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
}

// Promise: a client that has no connection any more, on a server that has none for it, says at the
// end of each wait which setting is the limit, and does not besiege the server, however many
// wait at once.
func TestAWaitWithoutAnyConnectionNamesTheLimit(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	c, err := interlock.Open(ctx, s.URL()+"?dial_timeout=1m", interlock.TTL(time.Hour)) // the server may be slow to refuse
	noError(t, err)
	t.Cleanup(func() { c.Close() }) // after the server has free connections: it would try for a TTL
	const most = 10                 // the fewest that there can be
	s.Do(fmt.Sprint("SET GLOBAL max_connections = ", most))
	const waiters = 8
	before := s.Status("Connection_errors_max_connections")
	free := takeAll(t, s, most)
	var all sync.WaitGroup
	for n := range waiters {
		all.Go(func() {
			wait, end := context.WithTimeout(ctx, busy.Bound(25*time.Second)) // a busy machine refuses late
			defer end()
			_, err := c.Mutex(fmt.Sprint(n)).Acquire(wait)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "its setting max_connections") {
				t.Errorf("the end of a wait: %v", err)
			}
		})
	}
	all.Wait()
	free()
	if refused := s.Status("Connection_errors_max_connections") - before; refused > 50*waiters {
		t.Errorf("the server has refused %d connections of %d who waited", refused, waiters)
	}
}

// takeAll ends the connections of all clients, and has those that the server allows itself, until
// it is to free them.
func takeAll(t *testing.T, s *mysqltest.Server, most int) (free func()) {
	t.Helper()
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	mine := map[int]*sql.Conn{}
	free = sync.OnceFunc(func() {
		for _, conn := range mine { // the pool closes those alone that nobody has
			conn.Close()
		}
		db.Close()
		busy.Until(t, "the server has free connections", func() bool { _, err := s.Query("SELECT 1"); return err == nil })
	})
	t.Cleanup(free)
	busy.Until(t, "others have no connections", func() bool {
		for {
			conn, err := db.Conn(t.Context())
			if err != nil {
				break
			}
			var id int
			noError(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
			mine[id] = conn
		}
		for _, id := range s.Threads("user = 'app'") {
			if mine[id] == nil {
				_, _ = s.Query(fmt.Sprint("KILL ", id)) // it may have ended by itself
			}
		}
		return len(mine) == most
	})
	return free
}

// Promise: a limit of an hour is not taken for one of connections at a time.
func TestALimitOfAnHourIsNamed(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, _ = session(t, s.URL()) // the tables are there
	for _, limit := range []string{"MAX_CONNECTIONS_PER_HOUR", "MAX_QUERIES_PER_HOUR"} {
		s.Do("ALTER USER app WITH " + limit + " 1")
		var err error
		for n := 0; n < 3 && err == nil; n++ { // the first may be let in
			var d driver.Driver
			if d, err = open(t.Context(), apart(s.URL(), n+1)); err == nil {
				d.Close()
			}
		}
		if err == nil || !strings.Contains(err.Error(), "one of an hour") {
			t.Errorf("%s: %v", limit, err)
		}
		s.Do("ALTER USER app WITH " + limit + " 0")
	}
}
