package mysqllock_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// oneConnection opens a session whose exchanges use the same connection as the pool, as
// long as they come one after the other.
func oneConnection(t *testing.T, s *mysqltest.Server, ttl time.Duration) (*sql.DB, *driver.Opened) {
	t.Helper()
	return idle(t, s, 1, ttl)
}

// idle opens a session over a pool that keeps so many connections at most.
func idle(t *testing.T, s *mysqltest.Server, connections int, ttl time.Duration) (*sql.DB, *driver.Opened) {
	t.Helper()
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(connections)
	d := errtest.Must(mysqllock.New(t.Context(), db))(t)
	t.Cleanup(func() { d.Close() })
	one := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
	return db, one
}

// refused has a session that is over ask for a free lock.
func refused(t *testing.T, s *mysqltest.Server, one *driver.Opened, r driver.Request) {
	t.Helper()
	if got, err := one.Join(t.Context(), r); !errors.Is(err, driver.ErrSession) {
		t.Errorf("a session that is over has got %+v, %v", got, err)
	}
	if n := s.Do("SELECT COALESCE(SUM(tickets), 0) FROM interlock_queues"); n != "0" {
		t.Errorf("it has left %s tickets", n)
	}
}

// Promise: a Join that is under way when its session is closed says that it is over, and
// keeps nobody out.
func TestCloseBesideJoin(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, gone := session(t, s.URL())
	_, stays := session(t, s.URL())
	pair(t, gone, 1)
	unlock := locked(t, s, "q")
	joined := make(chan error, 1)
	go func() { _, err := gone.Join(t.Context(), mutex("q", 2)); joined <- err }()
	waitsForRow(t, s)
	noError(t, gone.Close(t.Context()))
	unlock()
	errtest.Is(t, <-joined, driver.ErrSession)
	r := mutex("q", 3)
	r.NoWait = true
	if got, err := stays.Join(t.Context(), r); err != nil || !got.Held {
		t.Errorf("the next one has got %+v, %v", got, err)
	}
}

// Promise: a Join that has waited until its session was over gives its ticket no more time
// than was left when it was sent.
func TestSessionEndsBesideJoin(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	const ttl = 3 * time.Second
	_, other := session(t, s.URL())
	pair(t, other, 1)
	unlock := locked(t, s, "q")
	_, one := oneConnection(t, s, ttl) // and at once
	type answer struct {
		driver.Ticket
		err error
	}
	joined := make(chan answer, 1)
	go func() { got, err := one.Join(t.Context(), mutex("q", 2)); joined <- answer{got, err} }()
	waitsForRow(t, s)
	busy.Until(t, "the session ends", func() bool {
		return s.Do("UPDATE interlock_sessions SET gone = 1 WHERE id = UNHEX('"+one.ID+"') AND ends <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)); SELECT gone FROM interlock_sessions WHERE id = UNHEX('"+one.ID+"')") == "1"
	})
	unlock()
	got := <-joined
	r := mutex("q", 3)
	r.NoWait = true
	next, err := other.Join(t.Context(), r)
	if err != nil && !errors.Is(err, driver.ErrBusy) {
		t.Fatal(err)
	}
	if now := driver.Now(); err == nil && got.err == nil && now < got.Proof.Add(ttl) {
		t.Errorf("%+v and %+v hold at once", got, next)
	}
}

// Promise: a Join that comes to the server after the end of its session makes no ticket,
// also if nobody has noticed that end.
func TestJoinAfterEnd(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	for n, retry := range []bool{false, true} { // one is a statement, the other a procedure
		db, one := oneConnection(t, s, 10*time.Minute)
		pair(t, one, 10*n+1)
		errtest.Must(db.Exec("SET timestamp = UNIX_TIMESTAMP() + 3600"))(t)
		r := mutex("q", 10*n+2)
		r.Retry = retry
		refused(t, s, one, r)
	}
}

// Promise: a session that has ended while the server's clock was further on is over, also
// after that clock was set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	const ttl = 500 * time.Millisecond
	db, one := oneConnection(t, s, ttl)
	began := time.Now()
	s.Do("UPDATE interlock_sessions SET ends = 1 << 60") // however slow this is
	pair(t, one, 1)
	errtest.Must(db.Exec("SET timestamp = UNIX_TIMESTAMP() - 3600"))(t)
	s.Do("DELETE FROM interlock_sessions")
	time.Sleep(time.Until(began.Add(ttl)))
	refused(t, s, one, mutex("q", 2))
}

// Promise: a heartbeat that comes at the same microsecond as another one, and so changes
// nothing, does not take the session for one that is over; one that comes later than its
// end does, also over a connection that has renewed others.
func TestHeartbeatsAtOneTime(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	for n := range 3 {
		db, one := oneConnection(t, s, 10*time.Minute)
		errtest.Must(db.Exec("SET timestamp = UNIX_TIMESTAMP()"))(t)
		var all []driver.Ticket
		for i := range n {
			ticket := errtest.Must(one.Join(t.Context(), mutex(fmt.Sprint("q", n), 10*n+i)))(t)
			all = append(all, ticket)
		}
		for range 2 {
			if got, err := one.Renew(t.Context(), all); err != nil || len(got) != n {
				t.Errorf("with %d tickets: %+v, %v", n, got, err)
			}
		}
		s.Do("DELETE FROM interlock_sessions")
		if got, err := one.Renew(t.Context(), all); !errors.Is(err, driver.ErrSession) {
			t.Errorf("with %d tickets, after the end: %+v, %v", n, got, err)
		}
	}
}

// Promise: a heartbeat that began before another one, and is done after it, takes back
// nothing of what that one has promised.
func TestHeartbeatThatIsOvertaken(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	for n := range 2 { // with a ticket it is a procedure
		db, one := oneConnection(t, s, 10*time.Minute)
		var all []driver.Ticket
		for range n {
			ticket := errtest.Must(one.Join(t.Context(), mutex("q", 1)))(t)
			all = append(all, ticket)
		}
		renew := func() (ends int) {
			t.Helper()
			if got, err := one.Renew(t.Context(), all); err != nil || len(got) != n {
				t.Fatalf("with %d tickets: %+v, %v", n, got, err)
			}
			return number(t, s.Do("SELECT ends FROM interlock_sessions WHERE id = UNHEX('"+one.ID+"')"))
		}
		promised := renew()
		errtest.Must(db.Exec("SET timestamp = UNIX_TIMESTAMP() - 60"))(t) // as if it had begun then
		if ends := renew(); ends < promised {
			t.Errorf("with %d tickets: the session ends %v before the end that was promised", n, time.Duration(promised-ends)*time.Microsecond)
		}
	}
}

// pair makes the queue and leaves it empty.
func pair(t *testing.T, one *driver.Opened, n int) {
	t.Helper()
	ticket, err := one.Join(t.Context(), mutex("q", n))
	if err == nil {
		err = one.Leave(t.Context(), ticket, true)
	}
	noError(t, err)
}
