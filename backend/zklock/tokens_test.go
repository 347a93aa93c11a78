package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a ticket keeps the token that it was told, and is shown with it, however
// often tokens are raised meanwhile.
func TestRaisesWhileATicketIsHeld(t *testing.T) {
	s := zktest.Start(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	floor := uint64(1 << 40)
	more := func() {
		floor += 1000
		noError(t, d.Raise(limited(t), "q", floor))
	}
	more()
	h := holds(t, a, aMutex("q"))
	if h.Token <= floor {
		t.Fatalf("token %d after a raise to %d", h.Token, floor)
	}
	for range 8 {
		more()
		q, err := d.Follow(limited(t), "q", "")
		noError(t, err)
		if len(q.Members) != 1 || q.Members[0].Token != h.Token {
			t.Fatalf("shown as %+v, told as %+v", q.Members, h)
		}
	}
	noError(t, a.Leave(limited(t), h, true))
	for range 8 {
		more()
		next := holds(t, a, aMutex("q"))
		if next.Token <= floor {
			t.Fatalf("token %d after a raise to %d", next.Token, floor)
		}
		noError(t, a.Leave(limited(t), next, true))
	}
	if data, _, err := connected(t, s.Addr).Get("/a/_interlock/floors"); err != nil || len(data) > 100 {
		t.Errorf("what no ticket needs is kept: %q %v", data, err)
	}
}

// Promise: raises among tickets that are held, wait and come give each the token that it
// was told, and larger ones to those who come later.
func TestRaisesAmongTickets(t *testing.T) {
	s := zktest.Start(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	floor := uint64(1 << 40)
	var told []driver.Ticket
	for i := range 6 {
		r := aMutex("q")
		r.Kind, r.Units, r.Capacity = driver.Semaphore, 1, 4
		got := join(t, a, r)
		if got.Held && got.Token <= floor && i > 0 {
			t.Fatalf("token %d after a raise to %d", got.Token, floor)
		}
		told = append(told, got)
		floor += 1000
		noError(t, d.Raise(limited(t), "q", floor))
	}
	for i := range told {
		q, err := d.Follow(limited(t), "q", "")
		noError(t, err)
		for j, m := range q.Members {
			if want := told[i+j]; want.Held && m.Token != want.Token {
				t.Fatalf("member %d is shown with %d, told %d", j, m.Token, want.Token)
			}
		}
		noError(t, a.Leave(limited(t), told[i], true))
		if next := i + 4; next < len(told) {
			if told[next], err = a.Await(limited(t), told[next]); err != nil || told[next].Token <= floor {
				t.Fatalf("after a raise to %d: %+v %v", floor, told[next], err)
			}
		}
	}
}
