package memlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

// What the contract lets a backend refuse, or leave out, is refused or left out here, so
// that callers notice what they have forgotten.

func TestARepeatedJoinWithoutRetryIsRefused(t *testing.T) {
	ctx := t.Context()
	d := memlock.New()
	defer d.Close()
	s := open(t, d)
	refused := func(what string, r driver.Request) {
		t.Helper()
		_, err := s.Join(ctx, r)
		is(t, err, driver.ErrInvalid)
		if !strings.Contains(err.Error(), r.ID) || !strings.Contains(err.Error(), "Retry") {
			t.Errorf("%s: the error %q names neither the ID nor what is missing", what, err)
		}
	}
	holds, waits := mutex("q"), mutex("q")
	k := join(t, s, holds)
	join(t, s, waits)
	refused("of a ticket that is held", holds)
	refused("of a ticket that waits", waits)
	held(t, s, holds, true)
	held(t, s, waits, false)
	ok(t, s.Leave(ctx, k, true))
	refused("of a ticket that has left", holds)
	is(t, s.Leave(ctx, k, true), driver.ErrGone)
	refused("of a ticket that has left and was left again", holds)
	held(t, s, waits, true)

	first := mutex("q") // is left before it arrives, and has no Retry
	is(t, s.Leave(ctx, driver.Ticket{ID: first.ID, Queue: "q"}, true), driver.ErrGone)
	_, err := s.Join(ctx, first)
	is(t, err, driver.ErrGone)
}

func TestInheritedIsToldToThoseThatAskForIt(t *testing.T) {
	ctx := t.Context()
	for _, robust := range []bool{true, false} {
		d := memlock.New()
		defer d.Close()
		s := open(t, d)
		k := join(t, s, mutex("q"))
		next := mutex("q")
		next.ReportDeath = robust
		join(t, s, next)
		ok(t, s.Leave(ctx, k, false))
		if k := held(t, s, next, true); k.Inherited != robust {
			t.Errorf("robust %v: inherited %v", robust, k.Inherited)
		}
	}
}

func TestASwapIsRecognisedAsLongAsIsPromised(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ctx := t.Context()
		d := memlock.New()
		defer d.Close()
		s := driver.Swap{ID: newID(), Name: "c", Value: []byte("1")}
		first, err := d.Swap(ctx, s)
		ok(t, err)
		other := driver.Swap{ID: s.ID, Name: "c", Version: first.Version, Value: []byte("2")}
		_, err = d.Swap(ctx, other)
		is(t, err, driver.ErrInvalid)
		time.Sleep(driver.SwapMemory - 1)
		again, err := d.Swap(ctx, s)
		ok(t, err)
		if again.Version != first.Version {
			t.Errorf("version %d, the first result was %d", again.Version, first.Version)
		}
		time.Sleep(time.Nanosecond)
		_, err = d.Swap(ctx, s)
		is(t, err, driver.ErrConflict)
	})
}

// A conflict is a result, too: a Swap that was refused is not made when its version has come.
func TestASwapThatIsRepeatedReturnsItsFirstResult(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ctx := t.Context()
		d := memlock.New()
		defer d.Close()
		early := driver.Swap{ID: newID(), Name: "c", Version: 2, Value: []byte("early")}
		_, err := d.Swap(ctx, early)
		is(t, err, driver.ErrConflict)
		one := driver.Swap{ID: newID(), Name: "c", Value: []byte("one")}
		first, err := d.Swap(ctx, one)
		ok(t, err)
		two, err := d.Swap(ctx, driver.Swap{ID: newID(), Name: "c", Version: first.Version, Value: []byte("two")})
		ok(t, err)
		for range 6 {
			again, err := d.Swap(ctx, one)
			ok(t, err)
			if again.Version != first.Version || string(again.Value) != "one" {
				t.Fatalf("%+v, first %+v", again, first)
			}
			_, err = d.Swap(ctx, early) // its version has come meanwhile
			is(t, err, driver.ErrConflict)
			time.Sleep(driver.SwapMemory / 6)
		}
		if c, err := d.Load(ctx, "c"); err != nil || c.Version != two.Version {
			t.Fatalf("%+v, %v", c, err)
		}
	})
}
