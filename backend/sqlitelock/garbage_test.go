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

// Promise: garbage in what a row says of its tokens harms that name only: it is refused, and
// nobody who waits is granted, until its tokens are raised again, so that none goes back.
func TestGarbageInATokenHarmsOneName(t *testing.T) {
	path := newFile(t)
	d := start(t, path)
	s, other := begin(t, d), begin(t, start(t, path))
	last := map[string]uint64{}
	floor := uint64(1 << 40)
	raise := func(name string) {
		t.Helper()
		floor = max(floor, last["harmed"], last["well"]) + 1<<30
		noError(t, d.Raise(t.Context(), name, floor))
		last["harmed"] = floor
	}
	for _, column := range []string{"last", "granted", "shift"} {
		for i, data := range garbage {
			cure := []string{"harmed", ""}[i%2]
			overwrite := func() {
				t.Helper()
				sql(t, d, fmt.Sprintf("UPDATE queue SET %s = %s WHERE name = 'harmed'", column, data))
			}
			raise("harmed")
			s.passes(t, "harmed", last)
			overwrite()
			for _, who := range []*caller{s, other, s} {
				who.isRefused(t, "harmed")
				who.passes(t, "well", last)
			}
			sql(t, d, "UPDATE queue SET since = -9000000000000000 WHERE name = 'harmed'")
			d.store.forgetQueues(t.Context())
			s.isRefused(t, "harmed")
			raise(cure)
			s.passes(t, "harmed", last)

			held := s.mustJoin(t, mutex("harmed"), true)
			waits := other.mustJoin(t, mutex("harmed"), false)
			third := s.mustJoin(t, mutex("harmed"), false)
			if column != "granted" { // else nobody knows who holds
				overwrite()
				s.isRefused(t, "harmed")
				s.mustLeave(t, held)
				errtest.Must(other.Renew(t.Context(), []driver.Ticket{waits}))(t)
				if q, err := d.Follow(t.Context(), "harmed", ""); err != nil || len(q.Members) != 2 || q.Members[0].Held {
					t.Errorf("%+v %v", q, err)
				}
				raise(cure)
				errtest.Must(other.Renew(t.Context(), []driver.Ticket{waits}))(t)
			} else {
				s.mustLeave(t, held)
			}
			for _, w := range []struct {
				s *caller
				driver.Ticket
			}{{other, waits}, {s, third}} {
				got := w.s.mustAwait(t, w.Ticket)
				if got.Token <= last["harmed"] || got.Token >= driver.MaxToken {
					t.Errorf("%s = %s: the token %d after %d", column, data, got.Token, last["harmed"])
				}
				last["harmed"] = got.Token
				w.s.mustLeave(t, got)
			}
		}
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
