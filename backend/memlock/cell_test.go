package memlock_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

func TestACellKeepsItsVersion(t *testing.T) {
	ctx := t.Context()
	d := memlock.New()
	defer d.Close()
	swap := func(version uint64, value string, del bool) (driver.Cell, error) {
		return d.Swap(ctx, driver.Swap{ID: newID(), Name: "c", Version: version, Value: []byte(value), Delete: del})
	}
	c, err := d.Load(ctx, "c")
	ok(t, err)
	if c.Version != 0 || c.Exists {
		t.Fatalf("%+v", c)
	}
	first, err := swap(0, "one", false)
	ok(t, err)
	_, err = swap(0, "two", false)
	is(t, err, driver.ErrConflict)
	gone, err := swap(first.Version, "", true)
	ok(t, err)
	if gone.Version <= first.Version || gone.Exists || gone.Value != nil {
		t.Fatalf("%+v", gone)
	}
	for _, old := range []uint64{0, first.Version, gone.Version + 1} {
		_, err = swap(old, "back", false)
		is(t, err, driver.ErrConflict)
	}
	again, err := swap(gone.Version, "", false)
	ok(t, err)
	if c, err = d.Load(ctx, "c"); err != nil || c.Version != again.Version || !c.Exists || len(c.Value) != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	_, err = swap(again.Version, string(make([]byte, driver.MaxCell)), false)
	ok(t, err)
}

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

func TestAValueBelongsToItsCaller(t *testing.T) {
	ctx := t.Context()
	d := memlock.New()
	defer d.Close()
	v := []byte("value")
	s, err := d.Swap(ctx, driver.Swap{ID: newID(), Name: "c", Value: v})
	ok(t, err)
	l, err := d.Load(ctx, "c")
	ok(t, err)
	for _, mine := range [][]byte{v, s.Value, l.Value} {
		clear(mine)
	}
	if l, err = d.Load(ctx, "c"); err != nil || !bytes.Equal(l.Value, []byte("value")) {
		t.Fatalf("%q, %v", l.Value, err)
	}
}

func TestWatchAndFollowNeverMissTheLast(t *testing.T) {
	const changes = 1000
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := memlock.New()
	defer d.Close()
	s := open(t, d)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var c driver.Cell
			for string(c.Value) != "last" {
				next, err := d.Watch(ctx, "c", c.Version)
				if err != nil || next.Version <= c.Version {
					t.Errorf("%+v after %+v, %v", next, c, err)
					return
				}
				c = next
			}
		})
		wg.Go(func() {
			q, seen := driver.Queue{}, false
			for !seen || len(q.Members) > 0 {
				next, err := d.Follow(ctx, "q", q.Version)
				if err != nil || next.Version == q.Version || next.Version == "" {
					t.Errorf("%+v after %+v, %v", next, q, err)
					return
				}
				q = next
				seen = seen || len(q.Members) == 2
			}
		})
	}
	var version uint64
	for i := range changes {
		value := "value"
		if i == changes-1 {
			value = "last"
		}
		c, err := d.Swap(ctx, driver.Swap{ID: newID(), Name: "c", Version: version, Value: []byte(value)})
		ok(t, err)
		version = c.Version
	}
	for range changes {
		a, b := join(t, s, mutex("q")), join(t, s, mutex("q"))
		ok(t, s.Leave(ctx, a, true))
		ok(t, s.Leave(ctx, b, true))
	}
	last := []driver.Ticket{join(t, s, mutex("q")), join(t, s, mutex("q"))}
	time.Sleep(time.Millisecond)
	wait := make(chan struct{})
	go func() { wg.Wait(); close(wait) }()
	for done := false; !done; { // until every follower has seen both members, and none
		ok(t, s.Leave(ctx, last[0], true))
		ok(t, s.Leave(ctx, last[1], true))
		select {
		case <-wait:
			done = true
		case <-time.After(time.Millisecond):
			last = []driver.Ticket{join(t, s, mutex("q")), join(t, s, mutex("q"))}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestAnUnchangedStateIsNotReported(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		d := memlock.New()
		defer d.Close()
		s := open(t, d)
		k := join(t, s, mutex("q"))
		q, err := d.Follow(t.Context(), "q", "")
		ok(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), ttl/2)
		defer cancel()
		_, err = s.Renew(ctx, []driver.Ticket{k})
		ok(t, err)
		_, err = d.Follow(ctx, "q", q.Version)
		is(t, err, context.DeadlineExceeded)
		none, err := d.Follow(t.Context(), "empty", "")
		ok(t, err)
		ctx, cancel = context.WithTimeout(t.Context(), ttl/4)
		defer cancel()
		_, err = d.Follow(ctx, "empty", none.Version)
		is(t, err, context.DeadlineExceeded)
	})
}

func TestASnapshotShowsWhatIsThere(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ctx := t.Context()
		d := memlock.New()
		defer d.Close()
		s := open(t, d)
		r := mutex("b/one")
		r.Note, r.Hold = []byte("why"), time.Hour
		k := join(t, s, r)
		began := time.Now()
		time.Sleep(time.Second)
		next := join(t, s, mutex("b/one"))
		join(t, s, reader("b"))
		join(t, s, mutex("a"))
		var names []string
		for q, err := range d.Queues(ctx, "b") {
			ok(t, err)
			names = append(names, q.Name)
			if q.Name != "b/one" {
				continue
			}
			m := q.Members
			if q.Kind != driver.Mutex || q.Capacity != 1 || q.Read != d.Now() || len(m) != 2 {
				t.Fatalf("%+v", q)
			}
			if m[0].ID != k.ID || m[0].Owner != "test" || string(m[0].Note) != "why" || m[0].Units != 1 || !m[0].Held ||
				m[0].Token != k.Token || !m[0].Since.Equal(began) || m[0].Left != time.Hour-time.Second || !m[0].Fixed {
				t.Fatalf("%+v", m[0])
			}
			if m[1].ID != next.ID || m[1].Held || m[1].Token != 0 || m[1].Left != ttl || m[1].Fixed {
				t.Fatalf("%+v", m[1])
			}
		}
		if len(names) != 2 || names[0] != "b" || names[1] != "b/one" {
			t.Fatalf("%q", names)
		}
	})
}
