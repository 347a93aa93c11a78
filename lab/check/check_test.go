package check_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/lab/check"
	"github.com/interlock-go/interlock/lab/history"
)

// story is a history in the making. Times are milliseconds.
type story []history.Event

func (s *story) add(ms int64, w, n int, e history.Event) *story {
	e.T, e.Worker, e.G, e.N = ms*int64(time.Millisecond), w, 1, n
	*s = append(*s, e)
	return s
}

// grant is one that holds from ok to last.
func (s *story) grant(w, n int, object string, units, capacity int64, token uint64, invoke, ok, last int64) *story {
	s.add(invoke, w, n, history.Event{Kind: history.Invoke, Op: "acquire", Object: object, Units: units, Cap: capacity})
	s.add(ok, w, n, history.Event{Kind: history.OK, Op: "acquire", Object: object, Units: units, Cap: capacity, Token: token, ID: fmt.Sprintf("%d-%d.0", w, n)})
	return s.add(last, w, n, history.Event{Kind: history.Held, Object: object})
}

func (s *story) mutex(w, n int, token uint64, invoke, ok, last int64) *story {
	return s.grant(w, n, "mutex/all", 1, 1, token, invoke, ok, last)
}

func (s *story) release(w, n int, at, end int64) *story {
	s.add(at, w, n, history.Event{Kind: history.Release, Object: "mutex/all", Alive: true})
	return s.add(end, w, n, history.Event{Kind: history.Ended, Object: "mutex/all"})
}

func (s *story) lost(w, n int, at int64) *story {
	s.add(at, w, n, history.Event{Kind: history.Lost, Object: "mutex/all", Err: "lease lost"})
	s.add(at, w, n, history.Event{Kind: history.Release, Object: "mutex/all"})
	return s.add(at+1, w, n, history.Event{Kind: history.Ended, Object: "mutex/all", Err: "lease lost"})
}

func (s *story) fault(n int, op, worker string, loses bool, from, to int64) *story {
	s.add(from, 0, n, history.Event{Kind: history.Fault, Op: op, Object: worker, Loses: loses})
	return s.add(to, 0, n, history.Event{Kind: history.Heal, Op: op})
}

// Promise: each verdict sees what it is about, and nothing else does.
func TestVerdicts(t *testing.T) {
	exclusive := []string{check.Exclusion, check.Order}
	for _, c := range []struct {
		name  string
		story func(s *story)
		want  []string
	}{
		{"one after the other", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 3).release(1, 1, 3, 4).mutex(2, 1, 6, 0, 4, 8).release(2, 1, 8, 9)
		}, nil},
		{"two hold a mutex", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 5).release(1, 1, 5, 6).mutex(2, 1, 6, 0, 4, 8).release(2, 1, 8, 9)
		}, exclusive},
		{"two hold a mutex, and one is killed", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 5).fault(1, "kill", "1", false, 6, 7).mutex(2, 1, 6, 0, 4, 8).release(2, 1, 8, 9)
		}, exclusive},
		{"two hold after a failover that may lose grants", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 5).release(1, 1, 5, 6).fault(1, "failover", "", true, 2, 3).mutex(2, 1, 6, 0, 4, 8).release(2, 1, 8, 9)
		}, nil},
		{"two hold after a kill that may not", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 5).release(1, 1, 5, 6).fault(1, "server-kill", "", false, 2, 3).mutex(2, 1, 6, 0, 4, 8).release(2, 1, 8, 9)
		}, exclusive},
		{"granted before the release began", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 2).release(1, 1, 9, 10).mutex(2, 1, 6, 3, 4, 5).release(2, 1, 5, 6)
		}, exclusive},
		{"a lease that is lost gives permits back late", func(s *story) {
			s.grant(1, 1, "s", 4, 5, 5, 0, 1, 2).fault(1, "stop", "1", false, 2, 9).grant(2, 1, "s", 4, 5, 6, 3, 5, 6)
			s.add(9, 1, 1, history.Event{Kind: history.Change, Object: "s", Units: 1})
			s.add(10, 1, 1, history.Event{Kind: history.Changed, Object: "s", Err: "lease lost"})
			s.add(10, 1, 1, history.Event{Kind: history.Release, Object: "s"})
			s.add(11, 1, 1, history.Event{Kind: history.Ended, Object: "s", Err: "lease lost"})
			s.add(7, 2, 1, history.Event{Kind: history.Release, Object: "s", Alive: true})
			s.add(8, 2, 1, history.Event{Kind: history.Ended, Object: "s"})
		}, nil},
		{"lost, then granted", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 500).fault(1, "cut", "1", false, 2, 3000).lost(1, 1, 1800).mutex(2, 1, 6, 2, 2100, 2101).release(2, 1, 2101, 2102)
		}, nil},
		{"granted before the loss was told", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 500).fault(1, "cut", "1", false, 2, 3000).mutex(2, 1, 6, 2, 1700, 1701).release(2, 1, 1701, 1702).lost(1, 1, 1800)
		}, []string{check.Signal}},
		{"the same of one that stood still", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 500).fault(1, "stop", "1", false, 600, 3000).mutex(2, 1, 6, 2, 2100, 2101).release(2, 1, 2101, 2102).lost(1, 1, 3001)
		}, nil},
		{"lost for no reason", func(s *story) { s.mutex(1, 1, 5, 0, 1, 500).lost(1, 1, 600) }, []string{check.Healthy}},
		{"lost while another one is cut off", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 500).fault(1, "cut", "2", false, 2, 3000).lost(1, 1, 1800)
		}, []string{check.Healthy}},
		{"lost long after the fault", func(s *story) {
			s.fault(1, "server-stop", "", false, 0, 10).mutex(1, 1, 5, 4000, 4001, 5000).lost(1, 1, 6000)
		}, []string{check.Healthy}},
		{"lost in a process that stood still", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 100).add(1700, 1, 0, history.Event{Kind: history.Stall, D: 1500 * int64(time.Millisecond)}).lost(1, 1, 1701)
		}, nil},
		{"lost while the backend answers late", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 100).add(1700, 0, 0, history.Event{Kind: history.Stall, D: 500 * int64(time.Millisecond)}).lost(1, 1, 1701)
		}, nil},
		{"lost while the backend answers", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 100).add(1700, 0, 0, history.Event{Kind: history.Stall, D: 300 * int64(time.Millisecond)}).lost(1, 1, 1701)
		}, []string{check.Healthy}},
		{"evicted", func(s *story) {
			s.mutex(1, 1, 5, 0, 1, 500).add(600, 1, 1, history.Event{Kind: history.Lost, Object: "mutex/all", Err: "lease lost: evicted"})
			s.add(601, 1, 1, history.Event{Kind: history.Ended, Err: "lease lost"})
		}, nil},
		{"a token falls", func(s *story) {
			s.mutex(1, 1, 6, 0, 1, 2).release(1, 1, 2, 3).mutex(2, 1, 5, 4, 5, 6).release(2, 1, 6, 7)
		}, []string{check.Tokens, check.Order}},
		{"a failover lets two servers grant at once", func(s *story) {
			s.mutex(1, 1, 6, 0, 5, 6).release(1, 1, 6, 7).fault(1, "failover", "", true, 2, 9).mutex(2, 1, 5, 1, 7, 8).release(2, 1, 8, 9)
		}, nil},
		{"a token falls after a failover", func(s *story) {
			s.mutex(1, 1, 6, 0, 1, 2).release(1, 1, 2, 3).fault(1, "failover", "", true, 2, 3).mutex(2, 1, 5, 4, 5, 6).release(2, 1, 6, 7)
		}, []string{check.Tokens}},
		{"a token comes twice", func(s *story) {
			s.mutex(1, 1, 6, 0, 1, 2).release(1, 1, 2, 3).mutex(2, 1, 6, 4, 5, 6).release(2, 1, 6, 7)
		}, []string{check.Tokens, check.Order}},
		{"readers beside each other", func(s *story) { s.grant(1, 1, "rw", 1, 9, 5, 0, 1, 5).grant(2, 1, "rw", 1, 9, 5, 0, 2, 6).ends(1, 2) }, nil},
		{"a writer beside a reader", func(s *story) { s.grant(1, 1, "rw", 1, 9, 5, 0, 1, 5).grant(2, 1, "rw", 9, 9, 6, 0, 2, 6).ends(1, 2) }, exclusive},
		{"too many permits", func(s *story) { s.grant(1, 1, "s", 3, 5, 5, 0, 1, 5).grant(2, 1, "s", 3, 5, 6, 0, 2, 6).ends(1, 2) }, exclusive},
		{"permits that were given back", func(s *story) {
			s.grant(1, 1, "s", 3, 5, 5, 0, 1, 2).add(2, 1, 1, history.Event{Kind: history.Change, Object: "s", Units: 1, Alive: true})
			s.add(3, 1, 1, history.Event{Kind: history.Changed, Object: "s"}).grant(2, 1, "s", 3, 5, 6, 0, 3, 6).add(7, 1, 1, history.Event{Kind: history.Held}).ends(1, 2)
		}, nil},
		{"permits before the number was raised", func(s *story) {
			s.grant(1, 1, "r", 3, 3, 5, 0, 1, 9).grant(2, 1, "r", 1, 3, 6, 0, 4, 9).ends(1, 2)
			s.add(5, 3, 1, history.Event{Kind: history.Invoke, Op: "permits", Object: "r", Units: 4}).add(6, 3, 1, history.Event{Kind: history.OK, Op: "permits", Object: "r"})
		}, []string{check.Order}},
		{"permits after the number was raised", func(s *story) {
			s.grant(1, 1, "r", 3, 3, 5, 0, 1, 9).grant(2, 1, "r", 1, 3, 6, 0, 7, 9).ends(1, 2)
			s.add(5, 3, 1, history.Event{Kind: history.Invoke, Op: "permits", Object: "r", Units: 4}).add(6, 3, 1, history.Event{Kind: history.OK, Op: "permits", Object: "r"})
		}, nil},
		{"permits of a change that may come yet", func(s *story) {
			s.grant(1, 1, "r", 3, 3, 5, 0, 1, 9).grant(2, 1, "r", 1, 3, 6, 0, 7, 9).ends(1, 2)
			s.add(3, 3, 1, history.Event{Kind: history.Invoke, Op: "permits", Object: "r", Units: 4}).add(4, 3, 1, history.Event{Kind: history.Unknown, Op: "permits", Object: "r"})
		}, nil},
		{"overtaken in the line", func(s *story) {
			s.mutex(1, 1, 6, 0, 5, 6).release(1, 1, 6, 7).mutex(2, 1, 5, 1, 3, 4).release(2, 1, 4, 5)
			s.add(2, 3, 0, history.Event{Kind: history.Seen, Object: "mutex/all", IDs: []string{"x", "1-1", "2-1"}})
		}, []string{check.Fair}},
		{"seen while it was leaving", func(s *story) {
			s.mutex(2, 1, 5, 1, 2, 3).release(2, 1, 3, 9).mutex(1, 1, 6, 4, 9, 10).release(1, 1, 10, 11)
			s.add(5, 3, 0, history.Event{Kind: history.Seen, Object: "mutex/all", IDs: []string{"1-1", "2-1"}})
		}, nil},
		{"in the order of the line", func(s *story) {
			s.mutex(1, 1, 5, 0, 3, 4).release(1, 1, 4, 5).mutex(2, 1, 6, 1, 5, 6).release(2, 1, 6, 7)
			s.add(2, 3, 0, history.Event{Kind: history.Seen, Object: "mutex/all", IDs: []string{"x", "1-1", "2-1"}})
		}, nil},
		{"an old token is taken", func(s *story) { s.accept(1, 5, 0, 1).accept(2, 4, 1, 2) }, []string{check.Fenced}},
		{"a fenced update is lost", func(s *story) { s.accept(1, 5, 0, 1).accept(2, 6, 1, 2).accept(3, 7, 1, 2) }, []string{check.Fenced}},
		{"an unfenced update is lost", func(s *story) { s.accept(1, 0, 0, 1).accept(2, 0, 1, 2).accept(3, 0, 1, 2) }, nil},
		{"a waiter is left", func(s *story) {
			s.add(0, 1, 1, history.Event{Kind: history.Invoke, Op: "acquire", Object: "a", Cap: 1}).add(9, 1, 2, history.Event{})
		}, []string{check.Waiters}},
		{"a waiter was killed", func(s *story) {
			s.add(0, 1, 1, history.Event{Kind: history.Invoke, Op: "acquire", Object: "a", Cap: 1}).add(9, 1, 0, history.Event{Kind: history.Killed})
		}, nil},
		{"a waiter waits for long, undisturbed", func(s *story) {
			s.mutex(1, 1, 5, 0, 9000, 9001).release(1, 1, 9001, 9002).fault(1, "server-stop", "", false, 100, 200)
		}, []string{check.Waiters}},
		{"a waiter waits for long, disturbed", func(s *story) {
			s.mutex(1, 1, 5, 0, 9000, 9001).release(1, 1, 9001, 9002).fault(1, "server-stop", "", false, 100, 8200)
		}, nil},
		{"a value", func(s *story) {
			s.get(1, 1, 0, 1, 0, "").set(1, 2, 1, 2, 0, "a", history.OK, 5).get(2, 1, 3, 4, 5, "a")
		}, nil},
		{"a value that was overwritten unseen", func(s *story) {
			s.set(1, 1, 0, 1, 0, "a", history.OK, 5).set(2, 1, 2, 3, 0, "b", history.OK, 6)
		}, []string{check.Order}},
		{"a value that is read too old", func(s *story) { s.set(1, 1, 0, 1, 0, "a", history.OK, 5).get(2, 1, 2, 3, 0, "") }, []string{check.Order}},
		{"a value whose change is not known", func(s *story) {
			s.set(1, 1, 0, 1, 0, "a", history.Unknown, 0).get(2, 1, 2, 3, 0, "").get(2, 2, 4, 5, 7, "a").set(2, 3, 6, 7, 7, "b", history.OK, 8)
		}, nil},
		{"a conflict without a change", func(s *story) { s.set(1, 1, 0, 1, 0, "a", history.Failed, 0) }, []string{check.Order}},
		{"work that takes effect twice", func(s *story) {
			s.add(1, 0, 0, history.Event{Kind: history.Note, Op: "effects", Object: "k", Value: "2"})
		}, []string{check.Once}},
		{"work that has two results", func(s *story) {
			for n, v := range []string{"a", "b"} {
				s.add(int64(n), 1, n, history.Event{Kind: history.Invoke, Op: "once", Object: "k"}).add(int64(n), 1, n, history.Event{Kind: history.OK, Op: "once", Object: "k", Value: v})
			}
		}, []string{check.Once}},
		{"a latch that opens too early", func(s *story) { s.latch(2) }, []string{check.Gathering}},
		{"a latch", func(s *story) { s.latch(3) }, nil},
		{"a barrier for one", func(s *story) { s.enter(1, 0, 1).enter(2, 2, 3) }, []string{check.Gathering, check.Gathering}},
		{"a barrier for one and its former place", func(s *story) {
			s.add(0, 1, 1, history.Event{Kind: history.Invoke, Op: "enter", Object: "b", Cap: 2})
			s.add(1, 1, 1, history.Event{Kind: history.Unknown, Op: "enter", Object: "b"}).enter(1, 2, 3)
		}, nil},
		{"a barrier for two", func(s *story) { s.enter(1, 0, 3).enter(2, 2, 4) }, nil},
		{"an error that nothing explains", func(s *story) {
			s.add(1, 1, 1, history.Event{Kind: history.Unexpected, Object: "a", Err: "the driver is closed"})
		}, []string{check.Errors}},
		{"a key is left", func(s *story) { s.add(1, 0, 0, history.Event{Kind: history.Left, Object: "redis", Value: "a key"}) }, []string{check.Leftovers}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &story{}
			c.story(s)
			r := check.Check(history.Sort(*s), check.Options{TTL: 2 * time.Second, Patience: 3 * time.Second})
			var got []string
			for _, v := range r.Violations {
				got = append(got, v.Promise)
			}
			want := slices.Clone(c.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q: %+v", got, want, r.Violations)
			}
		})
	}
}

// ends releases the first grants of the workers.
func (s *story) ends(workers ...int) *story {
	for _, w := range workers {
		s.add(20, w, 1, history.Event{Kind: history.Release}).add(21, w, 1, history.Event{Kind: history.Ended})
	}
	return s
}

func (s *story) accept(ms int64, token, base uint64, value int) *story {
	return s.add(ms, 1, int(ms), history.Event{Kind: history.Accept, Object: "c", Token: token, Ver: base, Value: fmt.Sprint(value)})
}

func (s *story) get(w, n int, from, to int64, version uint64, value string) *story {
	s.add(from, w, n, history.Event{Kind: history.Invoke, Op: "get", Object: "v"})
	return s.add(to, w, n, history.Event{Kind: history.OK, Op: "get", Object: "v", Ver: version, Value: value})
}

func (s *story) set(w, n int, from, to int64, base uint64, value, kind string, version uint64) *story {
	s.add(from, w, n, history.Event{Kind: history.Invoke, Op: "set", Object: "v", Ver: base, Value: value})
	return s.add(to, w, n, history.Event{Kind: kind, Op: "set", Object: "v", Ver: version})
}

func (s *story) latch(counts int) *story {
	for n := range counts {
		s.add(int64(n), 1, n+1, history.Event{Kind: history.Invoke, Op: "countdown", Object: "l"}).add(int64(n), 1, n+1, history.Event{Kind: history.OK, Op: "countdown", Object: "l"})
	}
	s.add(0, 2, 1, history.Event{Kind: history.Invoke, Op: "latch", Object: "l"})
	return s.add(9, 2, 1, history.Event{Kind: history.OK, Op: "latch", Object: "l", Cap: 3})
}

func (s *story) enter(w int, from, to int64) *story {
	s.add(from, w, 1, history.Event{Kind: history.Invoke, Op: "enter", Object: "b", Cap: 2}).add(to, w, 1, history.Event{Kind: history.OK, Op: "enter", Object: "b", Cap: 2})
	s.add(to, w, 2, history.Event{Kind: history.Invoke, Op: "leave", Object: "b"})
	return s.add(to+1, w, 2, history.Event{Kind: history.OK, Op: "leave", Object: "b"})
}
