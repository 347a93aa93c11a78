package pglock

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// begunStore is a store over a pool of its own, with a session.
func begunStore(t *testing.T, url string, mode pgx.QueryExecMode) (*store, exchange.Session) {
	t.Helper()
	p := errtest.Must(pgxpool.ParseConfig(url))(t)
	p.ConnConfig.DefaultQueryExecMode = mode
	pool := errtest.Must(pgxpool.NewWithConfig(t.Context(), p))(t)
	t.Cleanup(pool.Close)
	c := &config{}
	noError(t, c.check())
	s := newStore(poolOf(pool), c)
	t.Cleanup(s.Close)
	noError(t, s.open(t.Context()))
	o := exchange.Session{ID: exchange.NewID(), TTL: time.Minute, Owner: "test"}
	errtest.Must(s.Begin(t.Context(), o))(t)
	return s, o
}

// Promise: locks of different names that are free are taken and released by one call each, however the pool sends
// queries.
func TestChangesOfDifferentLocksAreOneCall(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			s, o := begunStore(t, server.URL(), mode)
			first, second := tabletest.JoinOf(o, "it's a {\"name\"}, \\ "+mode.String()), tabletest.JoinOf(o, "other "+mode.String())
			first.Note = []byte{0, '"', '\\', '{', 255}
			for _, a := range append(tabletest.Together(t, s, first), tabletest.Together(t, s, second)...) { // there are rows now
				errtest.None(t, a.Err)
			}
			token := uint64(0)
			for _, clean := range []bool{false, true} {
				for i, a := range tabletest.Together(t, s, tabletest.LeaveOf(first, clean), tabletest.LeaveOf(second, true)) {
					if a.Err != nil {
						t.Fatalf("Leave %d: %+v", i, a)
					}
				}
				first.ID, second.ID = exchange.NewID(), exchange.NewID()
				all := tabletest.Together(t, s, first, second)
				for i, a := range all {
					if a.Err != nil || a.State != exchange.Held || a.Token <= token || a.Inherited != (i == 0 && !clean) {
						t.Fatalf("Join %d after Leaves, clean: %v: %+v", i, clean, a)
					}
				}
				token = max(all[0].Token, all[1].Token)
			}
			q := errtest.Must(s.Read(t.Context(), first.Queue, exchange.Follower{}))(t)
			if len(q.Members) != 1 || q.Members[0].ID != first.ID || !bytes.Equal(q.Members[0].Note, first.Note) || !q.Members[0].Held {
				t.Errorf("%+v", q)
			}
		})
	}
}

// Promise: a change that is refused, or whose row is locked, is made alone, and costs the others of its list nothing.
func TestWhatIsContendedIsMadeAlone(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s, o := begunStore(t, server.URL(), pgx.QueryExecModeCacheStatement)
	over := o
	over.ID = exchange.NewID()
	free := tabletest.JoinOf(o, "free")
	for _, queue := range []string{"locked", "of the dead", "left"} {
		j := tabletest.JoinOf(o, queue)
		errtest.None(t, exchange.Alone(t.Context(), s, j).Err)
		errtest.None(t, exchange.Alone(t.Context(), s, tabletest.LeaveOf(j, true)).Err)
	}
	errtest.None(t, exchange.Alone(t.Context(), s, free).Err)
	held, waits := tabletest.JoinOf(o, "held"), tabletest.JoinOf(o, "held")
	for _, j := range []*exchange.Join{held, waits} {
		errtest.None(t, exchange.Alone(t.Context(), s, j).Err)
	}
	s.crowds.note("held", false)
	raw := errtest.Must(pgx.Connect(t.Context(), server.URL()))(t)
	t.Cleanup(func() { _ = raw.Close(context.Background()) })
	errtest.Must(raw.Exec(t.Context(), "BEGIN; SELECT FROM interlock.queue WHERE name = 'locked' FOR UPDATE"))(t)

	never := tabletest.LeaveOf(tabletest.JoinOf(o, "left"), true)
	for i, a := range tabletest.Together(t, s, tabletest.LeaveOf(free, true), never, tabletest.LeaveOf(held, true)) {
		if want := []error{nil, exchange.ErrAlone, exchange.ErrAlone}[i]; a.Err != want {
			t.Errorf("Leave %d: %v, want %v", i, a.Err, want)
		}
	}
	again, other := tabletest.JoinOf(o, "free"), tabletest.JoinOf(o, "held")
	other.Kind = driver.Semaphore
	refused := tabletest.Together(t, s, tabletest.JoinOf(o, "locked"), tabletest.JoinOf(over, "of the dead"), other, again, tabletest.JoinOf(o, "new"), tabletest.JoinOf(o, "free"))
	for i, a := range refused {
		if made := i == 3 || i == 5; !made && a.Err != exchange.ErrAlone {
			t.Errorf("Join %d: %+v", i, a)
		}
	}
	if a, b := refused[3], refused[5]; (a.Err == nil) == (b.Err == nil) {
		t.Errorf("two take a lock that is free: %+v, %+v", a, b)
	}
	errtest.Is(t, exchange.Alone(t.Context(), s, tabletest.JoinOf(over, "of the dead")).Err, driver.ErrSession)
	errtest.Is(t, exchange.Alone(t.Context(), s, other).Err, driver.ErrMismatch)
	errtest.Is(t, exchange.Alone(t.Context(), s, never).Err, driver.ErrGone)
	errtest.None(t, exchange.Alone(t.Context(), s, tabletest.LeaveOf(held, true)).Err)
	if got := errtest.Must(s.Look(t.Context(), o, []exchange.Ref{{Queue: "held", ID: waits.ID}}))(t); got[0].State != exchange.Held {
		t.Errorf("the next one: %+v", got[0])
	}
}
