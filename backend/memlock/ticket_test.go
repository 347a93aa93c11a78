package memlock_test

import (
	"context"
	"testing"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

func TestShrinkGrantsWhoeverFits(t *testing.T) {
	ctx := t.Context()
	d := memlock.New()
	defer d.Close()
	s := open(t, d)
	w := join(t, s, writer("q"))
	first, second, last := reader("q"), reader("q"), writer("q")
	join(t, s, first)
	join(t, s, second)
	join(t, s, last)
	ok(t, s.Shrink(ctx, w, driver.RWCapacity)) // changes nothing
	held(t, s, first, false)
	ok(t, s.Shrink(ctx, w, 1))
	held(t, s, first, true)
	held(t, s, second, true)
	held(t, s, last, false)
	ok(t, s.Shrink(ctx, w, 5)) // never grows
	ok(t, s.Leave(ctx, w, false))
	if k := held(t, s, second, true); k.Inherited {
		t.Fatal("its exclusive hold had ended well")
	}
	is(t, s.Shrink(ctx, w, 1), driver.ErrGone)
}

func TestTokensGrow(t *testing.T) {
	ctx := t.Context()
	w := memlock.NewWorld()
	d := w.Driver()
	defer d.Close()
	s := open(t, d)
	var last uint64
	next := func(queue string) uint64 {
		t.Helper()
		k := join(t, s, mutex(queue))
		ok(t, s.Leave(ctx, k, true))
		if k.Token == 0 || k.Token >= driver.MaxToken {
			t.Fatalf("token %d", k.Token)
		}
		return k.Token
	}
	grows := func(atLeast uint64) {
		t.Helper()
		token := next("q")
		if token <= last || token <= atLeast {
			t.Fatalf("token %d after %d, floor %d", token, last, atLeast)
		}
		last = token
	}
	for range 3 { // over an empty queue each time
		grows(0)
	}
	ok(t, d.Raise(ctx, "q", 1000))
	grows(1000)
	ok(t, d.Raise(ctx, "q", 10)) // never lowers
	grows(1000)
	if other := next("other"); other > 100 {
		t.Fatalf("token %d: the floor of one queue moved another", other)
	}
	s = open(t, w.Driver())
	grows(1000)

	for _, floor := range []uint64{driver.MaxToken - 1, driver.MaxToken, 1<<64 - 1} {
		if err := d.Raise(ctx, "q", floor); !driver.IsPermanent(err) {
			t.Errorf("floor %d: %v", floor, err)
		}
	}
	k := join(t, s, mutex("q"))
	if err := d.Raise(ctx, "q", driver.MaxToken-2); !driver.IsPermanent(err) {
		t.Errorf("a floor that leaves no token for the ticket that stands: %v", err)
	}
	ok(t, s.Leave(ctx, k, true))
	ok(t, d.Raise(ctx, "q", driver.MaxToken-2))
	grows(driver.MaxToken - 2)
	if _, err := s.Join(ctx, mutex("q")); !driver.IsPermanent(err) {
		t.Fatalf("tokens are used up: %v", err)
	}
}

func TestInheritedTellsHowTheLastExclusiveHolderLeft(t *testing.T) {
	ctx := context.Background()
	leaves := func(clean bool) func(*testing.T, *memlock.Driver, driver.Session, driver.Ticket) {
		return func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) {
			ok(t, s.Leave(ctx, k, clean))
		}
	}
	closes := func(t *testing.T, d *memlock.Driver, s driver.Session, k driver.Ticket) { ok(t, s.Close(ctx)) }
	tests := map[string]struct {
		holder func(string) driver.Request
		ends   func(*testing.T, *memlock.Driver, driver.Session, driver.Ticket)
		want   bool
	}{
		"clean":        {mutex, leaves(true), false},
		"not clean":    {mutex, leaves(false), true},
		"closed":       {mutex, closes, true},
		"clean writer": {writer, leaves(true), false},
		"dead writer":  {writer, closes, true},
		"dead reader":  {reader, closes, false},
	}
	for name, tt := range tests {
		for _, queued := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				d := memlock.New()
				defer d.Close()
				s, other := open(t, d), open(t, d)
				r := tt.holder("q")
				k := join(t, s, r)
				next := r
				next.ID, next.ReportDeath, next.Units = newID(), true, r.Capacity
				if queued {
					join(t, other, next)
				}
				tt.ends(t, d, s, k)
				if k := held(t, other, next, true); k.Inherited != tt.want {
					t.Fatalf("inherited: %v, want %v", k.Inherited, tt.want)
				}
				ok(t, other.Leave(ctx, driver.Ticket{ID: next.ID, Queue: "q"}, true))
				next.ID = newID()
				if k := join(t, other, next); k.Inherited {
					t.Fatal("the last holder has left cleanly")
				}
			})
		}
	}
}

func TestLeaveByAnotherSessionNeedsAFixedEnd(t *testing.T) {
	ctx := t.Context()
	d := memlock.New()
	defer d.Close()
	s, other := open(t, d), open(t, d)
	k := join(t, s, mutex("q"))
	is(t, other.Leave(ctx, k, true), driver.ErrGone)
	is(t, other.Keep(ctx, k, ttl), driver.ErrGone)
	ok(t, s.Keep(ctx, k, ttl))
	ok(t, s.Close(ctx))
	ok(t, other.Keep(ctx, k, 2*ttl))
	ok(t, other.Leave(ctx, k, true))
	is(t, other.Leave(ctx, k, true), driver.ErrGone)
}

func TestKeepIsForAHeldTicket(t *testing.T) {
	ctx := t.Context()
	d := memlock.New()
	defer d.Close()
	s := open(t, d)
	first, second := join(t, s, mutex("q")), join(t, s, mutex("q"))
	if err := s.Keep(ctx, second, ttl); !driver.IsPermanent(err) {
		t.Fatal(err)
	}
	ok(t, s.Keep(ctx, first, 1<<62)) // as good as for ever
	if q, err := d.Follow(ctx, "q", ""); err != nil || q.Members[0].Left < 24*ttl {
		t.Fatalf("%+v, %v", q, err)
	}
}
