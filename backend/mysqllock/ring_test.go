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
	urls := s.URL() + "?max_connections=8"
	bell := errtest.Must(sql.Open("mysql", s.DSN()))(t)
	defer bell.Close()
	var all, rings sync.WaitGroup
	var rung atomic.Int64
	const least = 50 // rings, however slow those are who ring
	done := make(chan struct{})
	failed := make(chan error, clients)
	for c := range clients {
		_, one := session(t, urls)
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
