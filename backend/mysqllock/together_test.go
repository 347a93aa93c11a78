package mysqllock

import (
	"bytes"
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// begunStore is a store with a session.
func begunStore(t *testing.T, url string) (*store, exchange.Session) {
	t.Helper()
	s, _, err := storeOf(errtest.Must(driver.ParseURL(url))(t))
	errtest.None(t, err)
	t.Cleanup(s.Close)
	errtest.Must(s.fit(t.Context()))(t)
	o := exchange.Session{ID: exchange.NewID(), TTL: time.Minute, Owner: "test"}
	errtest.Must(s.Begin(t.Context(), o))(t)
	return s, o
}

// Promise: locks of different names that are free are taken and released by one statement each, on connections that are
// older than the session, and on later ones.
func TestChangesOfDifferentLocksAreOneStatement(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("on MySQL each change is made alone")
	}
	server := mysqltest.Start(t)
	s, o := begunStore(t, server.URL())
	for _, knows := range []bool{true, false} {
		if !knows {
			s.ends.end(o.ID)
		}
		first, second := tabletest.JoinOf(o, "it's a \\ \"name\" %s"), tabletest.JoinOf(o, "other")
		first.Note = []byte{0, '\'', '\\', '%', 255}
		for _, j := range []*exchange.Join{first, second} { // there are rows now
			errtest.None(t, exchange.Alone(t.Context(), s, j).Err)
		}
		token := uint64(0)
		for range 3 {
			unknown := tabletest.JoinOf(o, "other than these")
			for i, a := range tabletest.Together(t, s, tabletest.LeaveOf(first, true), tabletest.LeaveOf(unknown, true), tabletest.LeaveOf(second, true)) {
				if want := []error{nil, exchange.ErrAlone, nil}[i]; a.Err != want {
					t.Fatalf("Leave %d: %+v", i, a)
				}
			}
			first.ID, second.ID, second.Capacity = exchange.NewID(), exchange.NewID(), second.Capacity+1
			all := tabletest.Together(t, s, first, second, unknown)
			for i, a := range all[:2] {
				if a.Err != nil || a.State != exchange.Held || a.Token <= token {
					t.Fatalf("Join %d: %+v, after the token %d", i, a, token)
				}
			}
			errtest.Is(t, all[2].Err, exchange.ErrAlone)
			token = max(all[0].Token, all[1].Token)
		}
		for i, a := range tabletest.Together(t, s, tabletest.LeaveOf(second, true), tabletest.LeaveOf(tabletest.JoinOf(o, "none"), true)) {
			errtest.Is(t, a.Err, []error{nil, exchange.ErrAlone}[i])
		}
		q := errtest.Must(s.Read(t.Context(), first.Queue, exchange.Follower{}))(t)
		if len(q.Members) != 1 || q.Members[0].ID != first.ID || !bytes.Equal(q.Members[0].Note, first.Note) || !q.Members[0].Held {
			t.Errorf("%+v", q)
		}
		unclean := tabletest.LeaveOf(first, true)
		unclean.Clean = false
		errtest.None(t, tabletest.Together(t, s, unclean, tabletest.LeaveOf(second, true))[0].Err)
		if a := exchange.Alone(t.Context(), s, tabletest.JoinOf(o, first.Queue)); a.Err != nil || !a.Inherited {
			t.Errorf("the next one: %+v", a)
		}
		server.Do("DELETE FROM interlock_queues")
	}
}

// Promise: a list does not wait for a row that others have locked, and takes nothing that is not free: each change is
// made alone, and says what it would have said without the others.
func TestWhatIsContendedIsMadeAlone(t *testing.T) {
	t.Parallel()
	server := mysqltest.Start(t)
	s, o := begunStore(t, server.URL())
	over := o
	over.ID = exchange.NewID()
	for _, queue := range []string{"locked", "of the dead", "free"} {
		j := tabletest.JoinOf(o, queue)
		errtest.None(t, exchange.Alone(t.Context(), s, j).Err)
		errtest.None(t, exchange.Alone(t.Context(), s, tabletest.LeaveOf(j, true)).Err)
	}
	held, waits := tabletest.JoinOf(o, "held"), tabletest.JoinOf(o, "held")
	for _, j := range []*exchange.Join{held, waits} {
		errtest.None(t, exchange.Alone(t.Context(), s, j).Err)
	}
	forget := func() { s.crowds = crowds{} }
	forget()
	other, free := tabletest.JoinOf(o, "held"), tabletest.JoinOf(o, "free")
	other.Kind = driver.Semaphore
	for i, a := range tabletest.Together(t, s, tabletest.JoinOf(over, "of the dead"), other, tabletest.JoinOf(o, "new"), tabletest.LeaveOf(held, true), tabletest.JoinOf(o, "held")) {
		if a.Err != exchange.ErrAlone {
			t.Errorf("change %d: %+v", i, a)
		}
	}
	db := errtest.Must(sql.Open("mysql", server.DSN()))(t)
	t.Cleanup(func() { db.Close() })
	tx := errtest.Must(db.Begin())(t)
	errtest.Must(tx.Exec("UPDATE interlock_queues SET watched = 1 - watched WHERE name = 'locked'"))(t)
	for i, a := range tabletest.Together(t, s, tabletest.JoinOf(o, "locked"), free) {
		if a.Err != exchange.ErrAlone {
			t.Errorf("Join %d beside one whose row is locked: %+v", i, a)
		}
	}
	errtest.None(t, exchange.Alone(t.Context(), s, free).Err)
	errtest.None(t, tx.Rollback())
	errtest.Is(t, exchange.Alone(t.Context(), s, tabletest.JoinOf(over, "of the dead")).Err, driver.ErrSession)
	errtest.Is(t, exchange.Alone(t.Context(), s, other).Err, driver.ErrMismatch)
	errtest.None(t, exchange.Alone(t.Context(), s, tabletest.LeaveOf(held, true)).Err)
	if got := errtest.Must(s.Look(t.Context(), o, []exchange.Ref{{Queue: "held", ID: waits.ID}}))(t); got[0].State != exchange.Held {
		t.Errorf("the next one: %+v", got[0])
	}
}

// Promise: a list that does not reach the server is not taken for one that was made.
func TestAListThatDoesNotArriveIsNotMade(t *testing.T) {
	t.Parallel()
	server := mysqltest.Start(t)
	s, o := begunStore(t, server.URL())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Change(ctx, []exchange.Change{tabletest.LeaveOf(tabletest.JoinOf(o, "a"), true), tabletest.LeaveOf(tabletest.JoinOf(o, "b"), true)}, func(i int, a exchange.Answer) {
		errtest.Is(t, a.Err, context.Canceled)
	})
}

// Promise: an answer to waiters that give up which is shorter than they are ends no program.
func TestAnswerToFewerThanGiveUp(t *testing.T) {
	t.Parallel()
	server := mysqltest.Start(t)
	s, o := begunStore(t, server.URL())
	server.Do(`DROP PROCEDURE interlock_v5_withdraw;
		CREATE PROCEDURE interlock_v5_withdraw(q VARBINARY(512), ids BLOB, o BINARY(16), clean TINYINT) SQL SECURITY INVOKER SELECT 0, '1', 0;`)
	_, _, err := s.Withdraw(t.Context(), o, "q", []string{exchange.NewID(), exchange.NewID()}, true)
	errtest.Is(t, err, errAnswer)
}
