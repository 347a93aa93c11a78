package mysqllock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: the bound on a client's connections holds whatever its callers do: who gives up a
// call whose statement waits inside the server takes no further connection. What is held is
// renewed meanwhile, and everything goes on afterwards.
func TestWhoGivesUpTakesNoConnection(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	const most = 8
	_, one := session(t, s.URL()+fmt.Sprint("?max_connections=", most))
	other := errtest.Must(one.Join(t.Context(), mutex("other", 1)))(t)
	first := errtest.Must(one.Join(t.Context(), mutex("q", 2)))(t)
	unlock := locked(t, s, "q")
	peak := 0
	for n := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		began := time.Now()
		_, err := one.Join(ctx, mutex("q", n+10))
		took := time.Since(began)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
			t.Fatalf("a Join that gives up: %v after %v", err, took)
		}
		peak = max(peak, len(s.Threads("user = 'app'")))
	}
	if peak > most {
		t.Errorf("%d connections of a client that may have %d", peak, most)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := one.Renew(ctx, []driver.Ticket{other}); err != nil || len(got) == 0 || got[0].State != driver.Kept {
		t.Errorf("what is held is not renewed meanwhile: %v, %v", got, err)
	}
	errtest.Is(t, one.Leave(ctx, other, true), nil, "what is held does not leave meanwhile")
	unlock()
	errtest.Is(t, one.Leave(ctx, first, true), nil)
	busy.Until(t, "no ticket of a Join that was given up stands", func() bool {
		got, err := one.Renew(ctx, nil)
		for _, r := range got {
			_ = one.Leave(ctx, driver.Ticket{ID: r.ID, Queue: r.Queue}, true)
		}
		return err == nil && s.Do("SELECT COUNT(*) FROM interlock_queues WHERE tickets > 0") == "0"
	})
}

// Promise: of those who come to a line and of those who give up, whatever their client, one at
// a time stands before a holder who releases.
func TestAReleaseDoesNotQueueBehindACrowd(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("MySQL shows who waits in other tables")
	}
	const clients, joins = 3, 2
	s := mysqltest.Start(t)
	_, holder := session(t, s.URL())
	held := errtest.Must(holder.Join(t.Context(), mutex("q", 1)))(t)
	type waiter struct {
		driver.Session
		stands driver.Ticket
	}
	var crowd []waiter
	for i := range clients {
		_, in := session(t, apart(s.URL(), i))
		stands := errtest.Must(in.Join(t.Context(), mutex("q", 10+i)))(t)
		crowd = append(crowd, waiter{in, stands})
	}
	unlock := locked(t, s, "q")
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	var all sync.WaitGroup
	again := func(what string, do func() error) { // where each try has waited in vain
		all.Go(func() {
			for err := do(); err != nil; err = do() {
				if ctx.Err() != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	for i, w := range crowd {
		again("who gives up", func() error { return w.Leave(ctx, w.stands, true) })
		for k := range joins {
			r := mutex("q", 100+i*joins+k)
			r.Retry = true // else its client may take the short way, if it has met nobody for a second
			again("who comes", func() error { _, err := w.Join(ctx, r); return err })
		}
	}
	waiting := func() (all, forRow int) {
		time.Sleep(200 * time.Millisecond) // InnoDB renews these tables if nobody has read them for a tenth of a second
		got := s.Do("SELECT COUNT(*), COALESCE(SUM(l.lock_table LIKE '%interlock_queues%'), 0) FROM information_schema.INNODB_TRX t " +
			"JOIN information_schema.INNODB_LOCKS l ON l.lock_id = t.trx_requested_lock_id")
		if _, err := fmt.Sscan(got, &all, &forRow); err != nil {
			t.Fatal(got, err)
		}
		return all, forRow
	}
	forRow := 0
	busy.Until(t, "the crowd waits", func() bool {
		n := 0
		n, forRow = waiting()
		return n == clients*(joins+1)
	})
	if forRow != 2 {
		t.Errorf("%d of the crowd wait for the row, want one who comes and one who leaves", forRow)
	}
	again("the holder", func() error { return holder.Leave(ctx, held, true) })
	busy.Until(t, "the release waits for the row", func() bool { n, forRow := waiting(); return n == clients*(joins+1)+1 && forRow > 2 })
	unlock()
	all.Wait()
}
