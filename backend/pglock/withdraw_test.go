package pglock

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: one exchange takes many out of a line and says who of them did not stand, also if
// one was granted in the meantime; whoever is next is granted then, and nobody else's ticket
// is touched.
func TestManyGiveUpInOneExchange(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, mine := begunStore(t, pgtest.Start(t).URL(), pgx.QueryExecModeCacheStatement)
	others := mine
	others.ID = exchange.NewID()
	errtest.Must(s.Begin(ctx, others))(t)
	join := func(session exchange.Session) string {
		t.Helper()
		id := exchange.NewID()
		r := driver.Request{ID: id, Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
		errtest.Must(s.Join(ctx, exchange.Join{Request: r, Session: session}))(t)
		return id
	}
	granted, waits, theirs, last := join(mine), join(mine), join(others), join(mine)
	never := exchange.NewID()
	gone, _, err := s.Withdraw(ctx, mine, "q", []string{waits, never, theirs, granted}, false)
	if want := []bool{false, true, true, false}; err != nil || !slices.Equal(gone, want) {
		t.Fatalf("these did not stand: %v, %v; want %v", gone, err, want)
	}
	refs := func(ids ...string) (all []exchange.Ref) {
		for _, id := range ids {
			all = append(all, exchange.Ref{Queue: "q", ID: id})
		}
		return all
	}
	states := func(session exchange.Session, ids ...string) (all []exchange.State) {
		t.Helper()
		got := errtest.Must(s.Look(ctx, session, refs(ids...)))(t)
		for _, one := range got {
			all = append(all, one.State)
		}
		return all
	}
	if got, want := states(mine, granted, waits, last), []exchange.State{exchange.Gone, exchange.Gone, exchange.Waiting}; !slices.Equal(got, want) {
		t.Errorf("the tickets are %v, want %v", got, want)
	}
	if got := states(others, theirs); got[0] != exchange.Held {
		t.Errorf("the next in line is %v, not granted", got[0])
	}
	if look, err := s.Look(ctx, others, refs(theirs)); err != nil || !look[0].Inherited {
		t.Errorf("what was left unclean is not inherited: %+v, %v", look, err)
	}
	if gone, _, err := s.Withdraw(ctx, mine, "nobody was here", []string{never}, true); err != nil || !slices.Equal(gone, []bool{true}) {
		t.Errorf("a queue that does not exist: %v, %v", gone, err)
	}
	errtest.Must(s.End(ctx, mine, nil))(t)
	if _, _, err := s.Withdraw(ctx, mine, "q", []string{last}, true); !errors.Is(err, driver.ErrSession) {
		t.Errorf("a session that is over: %v", err)
	}
}

// Promise: an answer to many that give up which is longer than they are ends no program.
func TestAnswerToMoreThanGiveUp(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s, mine := begunStore(t, server.URL(), pgx.QueryExecModeCacheStatement)
	id := exchange.NewID()
	errtest.Must(s.Join(t.Context(), exchange.Join{Request: driver.Request{ID: id, Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}, Session: mine}))(t)
	server.SQL(`CREATE OR REPLACE FUNCTION interlock.withdraw(p_queue text, p_session uuid, ids uuid[], clean boolean)
		RETURNS bigint[] LANGUAGE sql AS 'SELECT ARRAY[0, 0, 1, 1, 0]'`)
	if gone, _, err := s.Withdraw(t.Context(), mine, "q", []string{id}, true); err != nil || !slices.Equal(gone, []bool{false}) {
		t.Errorf("the one that was asked for: %v, %v", gone, err)
	}
}
