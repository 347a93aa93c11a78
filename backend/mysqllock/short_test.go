package mysqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// locked holds the row of a queue until unlock is called.
func locked(t *testing.T, s *mysqltest.Server, queue string) (unlock func()) {
	t.Helper()
	return uncommitted(t, s, "UPDATE interlock_queues SET watched = 1 - watched WHERE name = ?", queue)
}

// uncommitted executes a statement in a transaction, which stays open until undo is called.
func uncommitted(t *testing.T, s *mysqltest.Server, statement string, args ...any) (undo func()) {
	t.Helper()
	tx := transaction(t, s, statement, args...)
	return func() { _ = tx.Rollback() }
}

// transaction executes a statement and does not commit it.
func transaction(t testing.TB, s *mysqltest.Server, statement string, args ...any) *sql.Tx {
	t.Helper()
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	t.Cleanup(func() { db.Close() })
	tx := errtest.Must(db.Begin())(t)
	errtest.Must(tx.Exec(statement, args...))(t)
	return tx
}

func waitsForRow(t *testing.T, s *mysqltest.Server) {
	t.Helper()
	busy.Until(t, "somebody waits for the row", func() bool {
		return s.Status(`innodb\_row\_lock\_current\_waits`) == 1
	})
}

// Promise: a heartbeat does not wait for a Join or a Leave that waits for its queue, also on
// connections that are new.
func TestHeartbeatBesideWaiting(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, kept := session(t, s.URL())
	_, fresh := idle(t, s, -1, 20*time.Minute)
	for n, one := range []*driver.Opened{kept, fresh} {
		leave := joined(t, one, mutex("beside", 2*n+1), true)
		var joined driver.Ticket
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return one.Leave(ctx, leave, true) },
			func(ctx context.Context) (err error) {
				joined, err = one.Join(ctx, mutex("beside", 2*n+2))
				return err
			},
		} {
			unlock := locked(t, s, "beside")
			called := make(chan error, 1)
			go func() { called <- call(t.Context()) }()
			waitsForRow(t, s)
			errtest.Must(one.Renew(t.Context(), []driver.Ticket{leave}))(t)
			if len(called) > 0 {
				t.Error("the call did not wait for the row")
			}
			unlock()
			noError(t, <-called)
		}
		noError(t, one.Leave(t.Context(), joined, true))
	}
}

// Promise: a Join that was abandoned and comes after its ticket was left makes no ticket,
// whether that had stood or not.
func TestLateJoin(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, one := session(t, s.URL())
	for n, stands := range []bool{false, true} {
		r, other := mutex("late", n+1), mutex("late", n+100)
		r.Queue += fmt.Sprint("/", stands)
		other.Queue = r.Queue
		pair := func() {
			t.Helper()
			got := joined(t, one, other, true)
			noError(t, one.Leave(t.Context(), got, true))
			other.ID = newID(n + 200)
		}
		pair() // makes the queue
		if stands {
			unlock := locked(t, s, r.Queue)
			ctx, cancel := context.WithCancel(t.Context())
			called := make(chan error, 1)
			go func() { _, err := one.Join(ctx, r); called <- err }()
			waitsForRow(t, s)
			cancel()
			errtest.MustBe(t, <-called, context.Canceled)
			unlock()
			busy.Until(t, "the Join comes", func() bool {
				return s.Do("SELECT tickets FROM interlock_queues WHERE name = '"+r.Queue+"'") == "1"
			})
		}
		if err := one.Leave(t.Context(), driver.Ticket{Queue: r.Queue, ID: r.ID}, true); stands != (err == nil) || !stands && !errors.Is(err, driver.ErrGone) {
			t.Fatal(err)
		}
		if got, err := one.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
			t.Errorf("it stood: %v; the late Join has got %+v, %v", stands, got, err)
		}
		pair()
	}
}

// Promise: while nobody else is there a lock costs two statements, one commit each.
func TestAloneIsCheap(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Config("innodb_monitor_enable", "trx_rw_commits"))
	_, one := session(t, s.URL())
	pair := func(n int) {
		ticket := joined(t, one, mutex("alone", n), true)
		noError(t, one.Leave(t.Context(), ticket, true))
	}
	pair(1)
	const times = 50
	commits := "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rw_commits'"
	s.Do("INSERT INTO interlock_sessions(id, ends, ttl, owner, channel) SELECT UNHEX(LPAD(HEX(seq), 32, '0')), 1 << 60, 1000000, '', '' FROM " + sequence(1000) + " numbers; ANALYZE TABLE interlock_sessions")
	calls, asked, before := s.Status("com\\_call\\_procedure"), s.Status("questions"), s.Do(commits)
	rows := reading(s)
	for n := range times {
		pair(n + 2)
	}
	if n := rows(); n > 10*times {
		t.Errorf("%d rows read for %d pairs", n, times)
	}
	called := s.Status("com\\_call\\_procedure") - calls
	if called > times/5 { // a holder on a busy machine listens
		t.Errorf("%d calls of procedures", called)
	}
	if n := s.Status("questions") - asked; n > 2*times+20+2*called { // each of these on a new connection
		t.Errorf("%d statements for %d pairs", n, times)
	}
	if n := number(t, s.Do(commits)) - number(t, before); n > 2*times+10 {
		t.Errorf("%d commits for %d pairs", n, times)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n := errtest.Must(strconv.Atoi(text))(t)
	return n
}
