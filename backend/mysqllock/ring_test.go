package mysqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: no news are lost, whenever somebody rings: not even if the statement that
// waits has just begun, or has not yet. There are no heartbeats here that would find
// out what was lost.
func TestRingsAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	const clients = 3
	bell := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	defer bell.Close()
	var all, rings sync.WaitGroup
	var rung atomic.Int64
	const least = 50 // rings, however slow those are who ring
	done := make(chan struct{})
	failed := make(chan error, clients)
	for c := range clients {
		_, one := session(t, apart(s.URL(), c)+"&max_connections=8") // else a grant is part of the answer to the Leave
		all.Go(func() {
			for n := 0; n < cycles(60) || rung.Load() < least; n++ {
				ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
				ticket, err := one.Join(ctx, mutex("ring", c*1_000_000+n+1))
				if err == nil && !ticket.Held {
					ticket, err = one.Await(ctx, ticket)
				}
				if err == nil {
					err = one.Leave(ctx, ticket, true)
				}
				cancel()
				if err != nil {
					failed <- fmt.Errorf("client %d, number %d: %w", c, n, err)
					return
				}
			}
		})
	}
	ring := func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			threads, err := bell.Query("SELECT IS_USED_LOCK(CONCAT(CONVERT(channel USING utf8mb4), ':parked')) FROM interlock_sessions")
			if err != nil {
				continue
			}
			for threads.Next() {
				var thread sql.NullInt64
				if threads.Scan(&thread) == nil && thread.Valid {
					_, _ = bell.Exec(fmt.Sprint("KILL QUERY ", thread.Int64)) // as anybody may who has news
					rung.Add(1)
				}
			}
			threads.Close()
		}
	}
	for range 3 {
		rings.Go(ring)
	}
	all.Wait()
	close(done)
	rings.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	t.Logf("%d rings", rung.Load())
}

// Promise: a waiter whose grant was part of an answer that did not arrive looks by itself, long before a heartbeat.
func TestAGrantWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	_, one := session(t, s.URL())
	_, two := session(t, s.URL())
	holder := joined(t, one, mutex("q", 1), true)
	waiter := joined(t, two, mutex("q", 2), false)
	s.Do("DROP PROCEDURE interlock_v5_pass;\nDELIMITER //\nCREATE DEFINER=`app`@`%` PROCEDURE interlock_v5_pass(q VARBINARY(512), i BINARY(16), o BINARY(16), c TINYINT, m VARBINARY(64), e BIGINT) " +
		"SQL SECURITY INVOKER BEGIN CALL interlock_v5_leave(q, i, o, c, 0, m); KILL CONNECTION_ID(); END//\n")
	granted := make(chan error, 1)
	go func() {
		_, err := two.Await(ctx, waiter)
		granted <- err
	}()
	busy.Until(t, "the waiter listens", func() bool {
		return s.Do("SELECT COUNT(*) FROM interlock_sessions WHERE IS_USED_LOCK(CONCAT(CONVERT(channel USING utf8mb4), ':parked')) IS NOT NULL") == "2"
	})
	if err := one.Leave(ctx, holder, true); err == nil {
		t.Fatal("the answer has arrived")
	}
	noError(t, <-granted)
}

// Promise: where the connection is lost that the parked ones of all clients wait for, another client has one in its
// place, and grants arrive as before.
func TestTheAnchorIsLost(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	_, one := session(t, apart(s.URL(), 1))
	_, two := session(t, apart(s.URL(), 2))
	for n := range 6 {
		holder := joined(t, one, mutex("q", 2*n+1), true)
		waiter := joined(t, two, mutex("q", 2*n+2), false)
		granted := make(chan error, 1)
		go func() {
			_, err := two.Await(ctx, waiter)
			granted <- err
		}()
		busy.Until(t, "both clients listen", func() bool {
			return s.Do("SELECT COUNT(*) FROM interlock_sessions WHERE IS_USED_LOCK(CONCAT(CONVERT(channel USING utf8mb4), ':parked')) IS NOT NULL") == "2"
		})
		anchor := s.Do("SELECT IS_USED_LOCK('interlock_anchor')")
		s.Do("KILL " + anchor)
		busy.Until(t, "another connection is the anchor", func() bool {
			now := s.Do("SELECT COALESCE(IS_USED_LOCK('interlock_anchor'), 0)")
			return now != "0" && now != anchor
		})
		noError(t, one.Leave(ctx, holder, true))
		noError(t, <-granted)
		noError(t, two.Leave(ctx, waiter, true))
	}
	if n := len(s.Threads("user = 'app' AND state = 'User lock'")); n != 2 {
		t.Errorf("%d connections are parked", n)
	}
}

// Promise: while a connection that was parked is the anchor, and its client has parked no other one yet, the client is
// told nothing less: it finds it when it parks.
func TestWhatIsToldBetweenTheAnchorAndTheNextIsKept(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	session(t, s.URL())
	db := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	defer db.Close()
	conn := errtest.Must(db.Conn(t.Context()))(t)
	tell := func() string {
		_, err := db.ExecContext(t.Context(), "CALL "+s.Do("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_NAME LIKE '%tell'")+
			"((SELECT id FROM interlock_sessions), 3, X'00', 0, 0)")
		noError(t, err)
		return s.Do("SELECT COUNT(*) FROM interlock_news")
	}
	if n := tell(); n != "0" {
		t.Errorf("no client listens, and has %s news", n)
	}
	park := s.Do("SELECT CONCAT(ROUTINE_NAME, '(X''', HEX(channel), ''', 1)') FROM information_schema.ROUTINES, interlock_sessions WHERE ROUTINE_NAME LIKE '%park'")
	var what int
	var other any
	noError(t, conn.QueryRowContext(t.Context(), "CALL "+park).Scan(&other, &what, &other, &other, &other, &other))
	if n := tell(); what != 0 || n != "1" {
		t.Errorf("it is the anchor: %v, with %s news", what == 0, n)
	}
}
