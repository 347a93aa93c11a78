package zklock_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/zktest"
)

// plain are Joins of mutexes of these names, which have nodes.
func (p *party) plain(n int) (changes []exchange.Change) {
	p.t.Helper()
	row := p.Session.(interface{ Row() exchange.Session }).Row()
	for i := range n {
		warm(p.t, p.Opened, fmt.Sprintf("q%d", i))
		changes = append(changes, &exchange.Join{Request: aMutex(fmt.Sprintf("q%d", i)), Session: row})
	}
	return changes
}

// leaving are the Leaves of Joins.
func leaving(joins []exchange.Change) (changes []exchange.Change) {
	for _, c := range joins {
		j := c.(*exchange.Join)
		changes = append(changes, &exchange.Leave{Ref: exchange.Ref{Queue: j.Queue, ID: j.ID}, Session: j.Session, Clean: true})
	}
	return changes
}

// makes makes a list of changes, and says how many transactions that took. Those that are to be alone are not made.
func (p *party) makes(changes []exchange.Change) (answers []exchange.Answer, transactions int) {
	p.t.Helper()
	writes := func() int { return p.via.Requests(zktest.OpCreate, zktest.OpDelete, zktest.OpMulti) }
	before := writes()
	answers = make([]exchange.Answer, len(changes))
	p.d.(*exchange.Driver).Store().Change(limited(p.t), changes, func(i int, a exchange.Answer) { answers[i] = a })
	return answers, writes() - before
}

// Promise: changes of different locks that a client asks for at the same time go together.
func TestChangesOfDifferentLocksGoTogether(t *testing.T) {
	a := alone(t)
	joins := a.plain(20)
	answers, n := a.makes(joins)
	tokens := map[uint64]bool{}
	for i, got := range answers {
		if got.Err != nil || got.State != exchange.Held || got.Token == 0 || len(a.nodes(fmt.Sprintf("q%d", i))) != 1 {
			t.Errorf("Join %d: %+v", i, got)
		}
		tokens[got.Token] = true
	}
	if n != 1 || len(tokens) != 1 {
		t.Errorf("%d Joins took %d transactions, and have %d tokens", len(joins), n, len(tokens))
	}
	answers, n = a.makes(leaving(joins))
	for i, got := range answers {
		if got.Err != nil || len(a.nodes(fmt.Sprintf("q%d", i))) != 0 {
			t.Errorf("Leave %d: %+v", i, got)
		}
	}
	if n != 1 {
		t.Errorf("%d Leaves took %d transactions", len(answers), n)
	}
	r := aMutex("q0")
	r.ReportDeath = true
	if k := a.holds(r); k.Inherited {
		t.Error("it inherits, though the one before has left cleanly")
	}
}

// Promise: a change that is refused, or has to wait, costs the others of its list nothing, and has no effect.
func TestAChangeThatIsRefusedIsMadeAlone(t *testing.T) {
	a := alone(t)
	joins := a.plain(6)
	a.vanishes("/a/q3")
	joins[1].(*exchange.Join).NoWait = true
	joins = append(joins, &exchange.Join{Request: aMutex("q0"), Session: joins[0].(*exchange.Join).Session})
	answers, n := a.makes(joins)
	for i, got := range answers {
		alone := i == 1 || i == 3 || i == 6
		if alone != (got.Err == exchange.ErrAlone) || !alone && got.State != exchange.Held {
			t.Errorf("Join %d: %+v", i, got)
		}
	}
	if n != 2 {
		t.Errorf("the Joins took %d transactions", n)
	}
	for i, want := range []int{1, 0, 1, 0, 1, 1} {
		if got := len(a.nodes(fmt.Sprintf("q%d", i))); got != want {
			t.Errorf("q%d has %d tickets", i, got)
		}
	}
	before := a.via.Requests(zktest.OpMulti)
	if got := exchange.Alone(limited(t), a.d.(*exchange.Driver).Store(), joins[3]); got.Err != nil || got.State != exchange.Held {
		t.Errorf("alone: %+v", got)
	}
	if a.via.Requests(zktest.OpMulti) != before {
		t.Error("it was looked for, though it was never made")
	}
}

// Promise: the answer to a transaction is lost. Each change is left open, and is the same one when it is repeated.
func TestALostAnswerLeavesEachChangeOpen(t *testing.T) {
	a := alone(t)
	joins := a.plain(5)
	store := a.d.(*exchange.Driver).Store()
	a.via.LoseReplies(1, zktest.With(zktest.OpMulti))
	answers, _ := a.makes(joins)
	for i, got := range answers {
		if got.Err == nil || got.Err == exchange.ErrAlone || driver.IsPermanent(got.Err) {
			t.Errorf("Join %d: %+v", i, got)
		}
		j := joins[i].(*exchange.Join)
		j.Retry = true
		if got := exchange.Alone(limited(t), store, j); got.Err != nil || got.State != exchange.Held || len(a.nodes(j.Queue)) != 1 {
			t.Errorf("Join %d again: %+v, %d tickets", i, got, len(a.nodes(j.Queue)))
		}
	}
	a.via.LoseReplies(1, zktest.With(zktest.OpMulti))
	leaves := leaving(joins)
	for i, got := range first(a.makes(leaves)) {
		if got.Err == nil || got.Err == exchange.ErrAlone {
			t.Errorf("Leave %d: %+v", i, got)
		}
		if got := exchange.Alone(limited(t), store, leaves[i]); !errors.Is(got.Err, driver.ErrGone) {
			t.Errorf("Leave %d again: %+v", i, got)
		}
	}
}

func first[T, U any](t T, _ U) T { return t }
