package memlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

func TestATicketIsHeldIffTheUnitsUpToItFit(t *testing.T) {
	type step struct {
		join  string // a letter per ticket
		units int64
		leave string
		held  string
	}
	tests := map[string]struct {
		capacity int64
		steps    []step
	}{
		"mutex": {1, []step{
			{join: "a", units: 1, held: "a"}, {join: "b", units: 1, held: "a"}, {join: "c", units: 1, held: "a"},
			{leave: "a", held: "b"}, {leave: "b", held: "c"}, {leave: "c"},
		}},
		"a small one does not pass a large one": {3, []step{
			{join: "a", units: 2, held: "a"}, {join: "b", units: 2, held: "a"}, {join: "c", units: 1, held: "a"},
			{leave: "a", held: "bc"},
		}},
		"a waiter that leaves lets the next in": {3, []step{
			{join: "a", units: 2, held: "a"}, {join: "b", units: 2, held: "a"}, {join: "c", units: 1, held: "a"},
			{leave: "b", held: "ac"},
		}},
		"a waiter leaves from the middle": {1, []step{
			{join: "a", units: 1, held: "a"}, {join: "b", units: 1, held: "a"}, {join: "c", units: 1, held: "a"}, {join: "d", units: 1, held: "a"},
			{leave: "c", held: "a"}, {leave: "a", held: "b"}, {leave: "b", held: "d"},
		}},
		"readers and writers": {driver.RWCapacity, []step{
			{join: "a", units: 1, held: "a"}, {join: "b", units: 1, held: "ab"}, {join: "w", units: driver.RWCapacity, held: "ab"}, {join: "c", units: 1, held: "ab"}, {join: "d", units: 1, held: "ab"},
			{leave: "a", held: "b"}, {leave: "b", held: "w"}, {leave: "w", held: "cd"},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := memlock.New()
			defer d.Close()
			s := open(t, d)
			all := map[string]driver.Ticket{}
			for i, step := range tt.steps {
				if step.join != "" {
					r := driver.Request{ID: newID(), Queue: "q", Kind: driver.Semaphore, Units: step.units, Capacity: tt.capacity}
					all[step.join] = join(t, s, r)
				} else {
					ok(t, s.Leave(t.Context(), all[step.leave], true))
				}
				q, err := d.Follow(t.Context(), "q", "")
				ok(t, err)
				got := ""
				for _, m := range q.Members {
					if m.Held {
						for letter, k := range all {
							if k.ID == m.ID {
								got += letter
							}
						}
					}
				}
				if got != step.held {
					t.Fatalf("step %d: held %q, want %q", i, got, step.held)
				}
			}
		})
	}
}

func TestJoin(t *testing.T) {
	ctx := context.Background()
	d := memlock.New()
	defer d.Close()
	s, other := open(t, d), open(t, d)
	first := mutex("q")
	a := join(t, s, first)

	t.Run("repeated finds its own ticket and makes no second", func(t *testing.T) {
		if again := held(t, s, first, true); again != a {
			t.Fatalf("%+v, first %+v", again, a)
		}
	})
	t.Run("of another kind or capacity is refused", func(t *testing.T) {
		r := mutex("q")
		r.Kind = driver.Election
		_, err := other.Join(ctx, r)
		is(t, err, driver.ErrMismatch)
		r = mutex("q")
		r.Capacity = 2
		_, err = other.Join(ctx, r)
		is(t, err, driver.ErrMismatch)
	})
	t.Run("that must not wait is busy and leaves no ticket", func(t *testing.T) {
		r := mutex("q")
		r.NoWait = true
		_, err := other.Join(ctx, r)
		is(t, err, driver.ErrBusy)
		_, err = other.Await(ctx, driver.Ticket{ID: r.ID, Queue: "q"})
		is(t, err, driver.ErrGone)
	})
	t.Run("that must not wait leaves when it is found waiting", func(t *testing.T) {
		r := mutex("q")
		held(t, other, r, false)
		r.NoWait, r.Retry = true, true
		_, err := other.Join(ctx, r)
		is(t, err, driver.ErrBusy)
		_, err = other.Join(ctx, r)
		is(t, err, driver.ErrGone)
	})
	t.Run("of a ticket that has left is refused", func(t *testing.T) {
		ok(t, s.Leave(ctx, a, true))
		first.Retry = true
		_, err := s.Join(ctx, first)
		is(t, err, driver.ErrGone)
	})
	t.Run("of a ticket that was left before is refused", func(t *testing.T) {
		r := mutex("q")
		is(t, s.Leave(ctx, driver.Ticket{ID: r.ID, Queue: "q"}, true), driver.ErrGone)
		_, err := s.Join(ctx, r)
		is(t, err, driver.ErrGone)
	})
	t.Run("after the queue was empty may have another kind", func(t *testing.T) {
		join(t, s, reader("q"))
	})
}

func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error: %v, want: %v", err, want)
	}
}
