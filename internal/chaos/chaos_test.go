package chaos_test

import (
	"testing"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/chaos"
)

// Promise: two who hold at once are seen, as is a token that does not grow, but not those
// who have left or know that they have lost the lock.
func TestTheWitnessSeesWhoHolds(t *testing.T) {
	c, err := interlock.Open(t.Context(), "mem:chaos")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease := func(name string) *interlock.Lease {
		l, err := c.Mutex(name).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b := lease("a"), lease("b")
	var w chaos.Witness
	enter := func(l *interlock.Lease, holds, wrong bool) {
		t.Helper()
		if got, err := w.Enter(l); got != holds || (err != nil) != wrong {
			t.Errorf("%s: it holds: %v, %v", l.Name(), got, err)
		}
	}
	enter(a, true, false)
	enter(b, true, true) // beside a
	w.Leave(b)           // which was not let in
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	enter(a, false, false)
	later := lease("a")
	enter(later, true, false)
	w.Leave(later)
	enter(later, true, true) // with the same token
}
