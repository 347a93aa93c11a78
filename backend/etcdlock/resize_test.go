package etcdlock

import (
	"context"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// permit joins, and returns what is known of the ticket.
func permit(t *testing.T, s *store, o exchange.Session, units, capacity int64, state exchange.State) exchange.Ref {
	t.Helper()
	j := exchange.Join{Session: o, Request: driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Semaphore, Units: units, Capacity: capacity}}
	st, err := s.Join(t.Context(), j)
	if err != nil || st.State != state {
		t.Fatalf("%d of %d permits: %+v, %v", units, capacity, st, err)
	}
	return exchange.Ref{Queue: "q", ID: j.ID, Tag: st.Tag}
}

// look reads a ticket, and what is to be known of it the next time.
func stateOf(t *testing.T, s *store, o exchange.Session, ref *exchange.Ref) exchange.State {
	t.Helper()
	found, err := s.Look(t.Context(), o, []exchange.Ref{*ref})
	if err != nil {
		t.Fatal(err)
	}
	ref.Tag = found[0].Tag
	return found[0].State
}

// Promise: if whoever sets a number of permits ends in the middle, no more are granted than that all the same,
// and the waiters that were left as they were are served.
func TestWaitersThatNoResizeHasReachedAreServedByTheNewNumber(t *testing.T) {
	t.Parallel()
	s := storeTo(t, etcdtest.Start(t))
	o := begun(t, s)
	first := permit(t, s, o, 5, 5, exchange.Held)
	var line []exchange.Ref
	for range 4 {
		line = append(line, permit(t, s, o, 1, 5, exchange.Waiting))
	}
	if _, err := s.client.Put(t.Context(), s.permits("q"), "2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Leave(t.Context(), exchange.Leave{Session: o, Ref: first, Clean: true}); err != nil {
		t.Fatal(err)
	}
	q, err := s.Read(t.Context(), "q", exchange.Follower{})
	if err != nil || q.Capacity != 2 || len(q.Members) != 4 || q.Members[3].Held {
		t.Errorf("two permits were set; inspection shows %+v, %v", q, err)
	}
	for range 3 { // with the first look it is changed
		for i := range line {
			stateOf(t, s, o, &line[i])
		}
	}
	for i := range line {
		if got, want := stateOf(t, s, o, &line[i]), map[bool]exchange.State{true: exchange.Held, false: exchange.Waiting}[i < 2]; got != want {
			t.Errorf("waiter %d of four, where two permits were set: %v, not %v", i, got, want)
		}
	}
}

// Promise: who waits for all permits does not hold when the one in front of it leaves, while another that was
// granted by a larger number still holds.
func TestAHandOverWaitsForAllThatHoldBeyondTheNumber(t *testing.T) {
	t.Parallel()
	s := storeTo(t, etcdtest.Start(t))
	o := begun(t, s)
	leave := func(ref exchange.Ref) {
		t.Helper()
		if _, err := s.Leave(context.Background(), exchange.Leave{Session: o, Ref: ref, Clean: true}); err != nil {
			t.Fatal(err)
		}
	}
	first := permit(t, s, o, 4, 4, exchange.Held)
	one, two := permit(t, s, o, 2, 4, exchange.Waiting), permit(t, s, o, 2, 4, exchange.Waiting)
	leave(first)
	stateOf(t, s, o, &one)
	stateOf(t, s, o, &two)
	last := permit(t, s, o, 2, 4, exchange.Waiting)
	if _, err := s.Resize(t.Context(), "q", 2); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []*exchange.Ref{&one, &two} {
		ref.Tag = 0
		if got := stateOf(t, s, o, ref); got != exchange.Held {
			t.Fatalf("a permit beyond the number: %v", got)
		}
	}
	stateOf(t, s, o, &last)
	leave(two)
	if got := stateOf(t, s, o, &last); got != exchange.Waiting {
		t.Errorf("two of two permits, while two are held: %v", got)
	}
	leave(one)
	if got := stateOf(t, s, o, &last); got != exchange.Held {
		t.Errorf("two of two permits, while none is held: %v", got)
	}
}
