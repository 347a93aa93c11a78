package redislock_test

import (
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
func passes(t *testing.T, s *driver.Opened, queue string, last map[string]uint64) {
	t.Helper()
	tk, err := s.Join(t.Context(), exclusive(queue))
	if err != nil || !tk.Held || tk.Token <= last[queue] || tk.Token >= driver.MaxToken {
		t.Fatalf("%s: %+v %v, after the token %d", queue, tk, err, last[queue])
	}
	last[queue] = tk.Token
	noError(t, s.Leave(t.Context(), tk, true))
}

// isRefused sees that a lock is refused with an error that says where the fault is, and that
// nobody is kept out by that.
func isRefused(t *testing.T, s *driver.Opened, queue string, words ...string) {
	t.Helper()
	tk, err := s.Join(t.Context(), exclusive(queue))
	if !driver.IsPermanent(err) {
		t.Fatalf("%s: %+v %v", queue, tk, err)
	}
	for _, w := range append(words, fmt.Sprintf("%q", queue), "interlock admin raise-token") {
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
		noError(t, d.Raise(t.Context(), "harmed", last["harmed"]))
		passes(t, a, "harmed", last)
		if do(t, s, "DEL", key); i == len(garbage) {
			do(t, s, "HSET", key, "x", "y")
		} else {
			do(t, s, "SET", key, data)
		}
		_, b := session(t, s.URL(), time.Minute)
		for _, who := range []*driver.Opened{a, b, a} {
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
		held := joined(t, a, exclusive("q"), true)
		waits := joined(t, b, exclusive("q"), false)
		floor := held.Token + 1<<40
		noError(t, d.Raise(t.Context(), "q", floor))
		const key = "interlock:{q}:q"
		state := do(t, s, "HGET", key, "state").(string)
		do(t, s, "HSET", key, "state", state[:24]+last+state[32:])
		renew(t, a, held)
		renew(t, b, waits)
		isRefused(t, b, "q")
		noError(t, a.Leave(t.Context(), held, true))
		renew(t, b, waits)
		isRefused(t, a, "q")
		if q, err := d.Follow(t.Context(), "q", ""); err != nil || len(q.Members) != 1 || q.Members[0].Held {
			t.Fatal(q, err)
		}
		noError(t, d.Raise(t.Context(), "q", floor))
		renew(t, b, waits)
		waits = awaited(t, b, waits)
		if waits.Token <= floor || waits.Token >= driver.MaxToken {
			t.Errorf("the token %d after a raise to %d", waits.Token, floor)
		}
		noError(t, b.Leave(t.Context(), waits, true))
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
		noError(t, d.Raise(t.Context(), harmed, 1))
		passes(t, a, harmed, last)
		noError(t, d.Raise(t.Context(), "", 1))
		passes(t, a, fmt.Sprint("mended", i), last)
	}
}

// Promise: an error about garbage in what is kept of a lock names it and says what to do. (That it harms no other name
// is the rule Member.)
func TestGarbageInAQueueIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), time.Minute)
	const base = "interlock:{harmed}:"
	for what, overwrites := range map[string]func(held driver.Ticket) []string{
		"state":         func(driver.Ticket) []string { return []string{"HSET", base + "q", "state"} },
		"of the holder": func(held driver.Ticket) []string { return []string{"HSET", base + "q", held.ID} },
		"key":           func(driver.Ticket) []string { return []string{"SET", base + "q"} },
		"ends":          func(driver.Ticket) []string { return []string{"SET", base + "e"} },
	} {
		for _, data := range []string{"", "x", strings.Repeat("\xff", 100)} {
			held := joined(t, a, exclusive("harmed"), true)
			joined(t, a, exclusive("harmed"), false)
			do(t, s, append(overwrites(held), data)...)
			if _, err := d.Follow(t.Context(), "harmed", ""); !driver.IsPermanent(err) || !strings.Contains(err.Error(), `"harmed"`) || !strings.Contains(err.Error(), "DEL "+base+"q ") {
				t.Errorf("%s %.5q: shown with %v", what, data, err)
			}
			var last error
			for _, err := range d.Queues(t.Context(), "") {
				last = err
			}
			if !driver.IsPermanent(last) || !strings.Contains(last.Error(), "harmed") {
				t.Errorf("%s %.5q: the list ends with %v", what, data, last)
			}
			do(t, s, "DEL", base+"q", base+"w", base+"e", base+"x", base+"f")
			do(t, s, "DEL", "harmed") // as its time would be over
		}
	}
}
