package chaos_test

import (
	"testing"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: two who hold at once are seen, as is a token that does not grow, but not those
// who have left or know that they have lost the lock.
func TestTheWitnessSeesWhoHolds(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), "mem:chaos"))(t)
	defer c.Close()
	lease := func(name string) *interlock.Lease {
		l := errtest.Must(c.Mutex(name).Acquire(t.Context()))(t)
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
	errtest.None(t, a.Release())
	enter(a, false, false)
	later := lease("a")
	enter(later, true, false)
	w.Leave(later)
	enter(later, true, true) // with the same token
}
