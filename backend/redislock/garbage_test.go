package redislock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
)

// garbage is what a key may have been overwritten with.
var garbage = []string{"", "x", "?", "q?", "r", "r?1", "-1", "q?-5", "x5", "=1e9", "=inf", "nan", "=5\n", "\x00\xff", "q?9999999999999999999999", strings.Repeat("9", 400)}

// passes takes a lock and gives it back. Its token is above that of the one before.
func passes(t *testing.T, s driver.Session, queue string, last map[string]uint64) {
	t.Helper()
	tk, err := s.Join(t.Context(), exclusive(queue))
	if err != nil || !tk.Held || tk.Token <= last[queue] || tk.Token >= driver.MaxToken {
		t.Fatalf("%s: %+v %v, after the token %d", queue, tk, err, last[queue])
	}
	last[queue] = tk.Token
	if err := s.Leave(t.Context(), tk, true); err != nil {
		t.Fatal(err)
	}
}

// isRefused sees that a lock is refused with an error that says where the fault is, and that
// nobody is kept out by that.
func isRefused(t *testing.T, s driver.Session, queue string, words ...string) {
	t.Helper()
	tk, err := s.Join(t.Context(), exclusive(queue))
	if !driver.IsPermanent(err) {
		t.Fatalf("%s: %+v %v", queue, tk, err)
	}
	for _, w := range append(words, fmt.Sprintf("%q", queue), "interlock token raise") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: nothing of %s", err, w)
		}
	}
}

// Promise: garbage in the key that has the last token of a name harms that name only: it is
// refused until its tokens are raised again, so that none goes back.
func TestGarbageInATokenHarmsOneName(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), time.Minute)
	last := map[string]uint64{}
	const key = "interlock:{harmed}:t"
	for i, data := range append(garbage, "another type") {
		last["harmed"] += 1 << 40
		if err := d.Raise(t.Context(), "harmed", last["harmed"]); err != nil {
			t.Fatal(err)
		}
		passes(t, a, "harmed", last)
		if do(t, s, "DEL", key); i == len(garbage) {
			do(t, s, "HSET", key, "x", "y")
		} else {
			do(t, s, "SET", key, data)
		}
		_, b := session(t, s.URL(), time.Minute)
		for _, who := range []driver.Session{a, b, a} {
			isRefused(t, who, "harmed", key)
			passes(t, who, "well", last)
		}
		if keys := s.Keys(); len(keys) != 3 {
			t.Errorf("%q: left behind: %q", data, keys)
		}
	}
}

// Promise: nobody is granted a lock whose last token cannot be read, also who waits for it already,
// until its tokens are raised; who holds it goes on.
func TestWhoWaitsIsNotGrantedATokenThatCouldGoBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	for _, last := range []string{"\x7f\xf8\x00\x00\x00\x00\x00\x00", "\xff\xf0\x00\x00\x00\x00\x00\x00", "\x7f\xf0\x00\x00\x00\x00\x00\x00", "\xbf\xf0\x00\x00\x00\x00\x00\x00"} {
		held, err := a.Join(t.Context(), exclusive("q"))
		if err != nil || !held.Held {
			t.Fatal(held, err)
		}
		waits, err := b.Join(t.Context(), exclusive("q"))
		if err != nil || waits.Held {
			t.Fatal(waits, err)
		}
		floor := held.Token + 1<<40
		if err := d.Raise(t.Context(), "q", floor); err != nil {
			t.Fatal(err)
		}
		const key = "interlock:{q}:q"
		state := do(t, s, "HGET", key, "state").(string)
		do(t, s, "HSET", key, "state", state[:24]+last+state[32:])
		renew(t, a, held)
		renew(t, b, waits)
		isRefused(t, b, "q")
		if err := a.Leave(t.Context(), held, true); err != nil {
			t.Fatal(err)
		}
		renew(t, b, waits)
		isRefused(t, a, "q")
		if q, err := d.Follow(t.Context(), "q", ""); err != nil || len(q.Members) != 1 || q.Members[0].Held {
			t.Fatal(q, err)
		}
		if err := d.Raise(t.Context(), "q", floor); err != nil {
			t.Fatal(err)
		}
		renew(t, b, waits)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		waits, err = b.Await(ctx, waits)
		if cancel(); err != nil {
			t.Fatal(err)
		}
		if waits.Token <= floor || waits.Token >= driver.MaxToken {
			t.Errorf("the token %d after a raise to %d", waits.Token, floor)
		}
		if err := b.Leave(t.Context(), waits, true); err != nil {
			t.Fatal(err)
		}
	}
}

// Promise: garbage in the key that is above all tokens harms those names only of which nothing
// else is known.
func TestGarbageInTheHighestTokenHarmsNoKnownName(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, a := session(t, s.URL(), time.Hour)
	last := map[string]uint64{}
	const key = "interlock:{}:m"
	for i, data := range garbage {
		passes(t, a, "well", last)
		do(t, s, "SET", key, data)
		s.StepClock(time.Minute) // it is looked at
		passes(t, a, "well", last)
		harmed := fmt.Sprint("harmed", i)
		isRefused(t, a, harmed, key)
		if err := d.Raise(t.Context(), harmed, 1); err != nil {
			t.Fatal(err)
		}
		passes(t, a, harmed, last)
		do(t, s, "DEL", key)
	}
}
