package sqlitelock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// garbage is what a column may have been overwritten with.
var garbage = []string{"'x'", "''", "x'00'", "x'37'", "1.5", "-5", "9223372036854775807", "2251799813685248", "'9e99'"}

// passes takes a lock and gives it back. Its token is above that of the one before.
func (s *caller) passes(t *testing.T, queue string, last map[string]uint64) {
	t.Helper()
	tk := s.mustJoin(t, mutex(queue), true)
	if tk.Token <= last[queue] || tk.Token >= driver.MaxToken {
		t.Fatalf("%s: the token %d after %d", queue, tk.Token, last[queue])
	}
	last[queue] = tk.Token
	s.mustLeave(t, tk)
}

// isRefused sees that a lock is refused with an error that says where the fault is.
func (s *caller) isRefused(t *testing.T, queue string, words ...string) {
	t.Helper()
	tk, err := s.Join(t.Context(), mutex(queue))
	if !driver.IsPermanent(err) {
		t.Fatalf("%s: %+v %v", queue, tk, err)
	}
	for _, w := range append(words, fmt.Sprintf("%q", queue), "interlock admin raise-token") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: nothing of %s", err, w)
		}
	}
}

// Promise: garbage in the rows of a name harms that name only: it is refused, and no waiter of it is granted, until its
// tokens are raised again, so that none goes back. A list has the others.
func TestGarbageInAQueueHidesNoOther(t *testing.T) {
	path := newFile(t)
	d := start(t, path)
	s, other := begin(t, d), begin(t, start(t, path))
	last := map[string]uint64{}
	s.mustJoin(t, mutex("kept"), true)
	for _, data := range append(garbage, "substr(data, 1, 20)", "data || data", "zeroblob(40000000)") {
		s.passes(t, "harmed", last)
		held := s.mustJoin(t, mutex("harmed"), true)
		waits := other.mustJoin(t, mutex("harmed"), false)
		sql(t, d, "UPDATE queue SET data = "+data+" WHERE name = 'harmed'")
		for _, who := range []*caller{s, other, s} {
			who.isRefused(t, "harmed")
			who.passes(t, "well", last)
		}
		lists(t, d, "kept", "harmed")
		if err := s.Leave(t.Context(), held, true); !driver.IsPermanent(err) {
			t.Errorf("%s: Leave: %v", data, err)
		}
		d.store.forgetQueues(t.Context())
		s.isRefused(t, "harmed")
		floor := max(last["harmed"], last["well"], held.Token) + 1<<30
		noError(t, d.Raise(t.Context(), "harmed", floor))
		last["harmed"] = floor
		answer, err := other.Renew(t.Context(), []driver.Ticket{waits})
		if err != nil || len(answer) != 1 || answer[0].State != driver.Gone {
			t.Errorf("%s: the waiter of before: %+v, %v", data, answer, err)
		}
		s.passes(t, "harmed", last)
	}
}

// Promise: so does garbage in the row of a waiter that is in the tail of a queue.
func TestGarbageInATailHarmsOneName(t *testing.T) {
	path := newFile(t)
	d := start(t, path)
	s, other := begin(t, d), begin(t, start(t, path))
	last := map[string]uint64{}
	s.mustJoin(t, mutex("kept"), true)
	for _, data := range append(garbage, "substr(data, 1, 20)", "zeroblob(40000000)") {
		held := s.mustJoin(t, mutex("harmed"), true)
		var waits []driver.Ticket
		for range 8 {
			waits = append(waits, other.mustJoin(t, mutex("harmed"), false))
		}
		sql(t, d, "UPDATE ticket SET data = "+data)
		lists(t, d, "kept", "harmed")
		named := append([]driver.Ticket{held}, waits...)
		errtest.Must(s.Renew(t.Context(), named))(t)
		errtest.Must(other.Renew(t.Context(), named))(t)
		s.passes(t, "well", last)
		noError(t, d.Ask(t.Context(), "harmed", held.ID, driver.Force)) // the first three waiters need no other row
		for _, tk := range waits[:3] {
			if tk = other.mustAwait(t, tk); tk.Token <= held.Token {
				t.Errorf("%s: the token %d after %d", data, tk.Token, held.Token)
			}
			if held = tk; tk.ID != waits[2].ID {
				other.mustLeave(t, tk)
			}
		}
		if err := other.Leave(t.Context(), held, true); !driver.IsPermanent(err) {
			t.Errorf("%s: Leave before one that cannot be read: %v", data, err)
		}
		s.passes(t, "well", last)
		noError(t, d.Raise(t.Context(), "harmed", held.Token+1<<20))
		other.mustLeave(t, held) // it was kept, and so was the one behind it
		other.mustLeave(t, other.mustAwait(t, waits[3]))
		s.passes(t, "harmed", last)
	}
}

// lists looks whether a list has a queue, and ends with an error that names another one.
func lists(t *testing.T, d *client, want, harmed string) {
	t.Helper()
	seen, why := false, error(nil)
	for q, err := range d.Queues(t.Context(), "") {
		seen, why = seen || q.Name == want, err
	}
	if !seen || why == nil || !strings.Contains(why.Error(), harmed) {
		t.Errorf("listed: %v, and at the end: %v", seen, why)
	}
}

// Promise: garbage in what is below the tokens of all new names harms only these, until the tokens
// of all are raised again.
func TestGarbageInTheFloorHarmsNoKnownName(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	last := map[string]uint64{}
	for i, data := range garbage {
		s.passes(t, "well", last)
		sql(t, d, "UPDATE file SET floor = "+data)
		s.passes(t, "well", last)
		name := fmt.Sprint("new", i)
		s.isRefused(t, name, "--all")
		last[name] = last["well"] + 1<<30
		noError(t, d.Raise(t.Context(), "", last[name]))
		last["well"] = last[name]
		s.passes(t, name, last)
		s.passes(t, "well", last)
	}
}
