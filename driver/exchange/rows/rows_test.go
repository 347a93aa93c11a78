package rows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

const ttl = 10 * time.Second

// start is a time of the backend's clock.
var start = time.Unix(1_700_000_000, 0).UTC()

func session(n int) exchange.Session {
	return exchange.Session{ID: fmt.Sprint("session ", n), TTL: ttl, Mailbox: fmt.Sprint("mailbox ", n)}
}

// join asks for a mutex.
func join(id string, n int) exchange.Join {
	return exchange.Join{Request: driver.Request{ID: id, Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}, Session: session(n)}
}

func leave(id string, n int) exchange.Leave {
	return exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: id}, Session: session(n), Clean: true}
}

// text is a row as it is written.
func text(t *testing.T, row any) string {
	t.Helper()
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// steps are exchanges with the ticket of an ID for a session.
var steps = map[string]func(q *rows.Queue, id string, n int) error{
	"Join": func(q *rows.Queue, id string, n int) error {
		j := join(id, n)
		j.Kind, j.Capacity, j.Units = driver.Semaphore, 3, 1+rand.Int64N(3)
		j.NoWait, j.Hold = rand.N(4) == 0, time.Duration(rand.N(2))*ttl/2
		st, err := q.Join(j)
		if err == nil && j.NoWait && st.State != exchange.Held && !slices.ContainsFunc(q.Tickets, func(t *rows.Ticket) bool { return t.ID == id && t.Since.Before(q.Now) }) {
			return errors.New("a ticket that must not wait does")
		}
		return nil
	},
	"Leave": func(q *rows.Queue, id string, n int) error {
		l := leave(id, n)
		l.Clean, l.Tombstone = rand.N(2) == 0, rand.N(ttl)
		_ = q.Leave(l)
		return nil
	},
	"Withdraw": func(q *rows.Queue, id string, n int) error {
		q.Withdraw(session(n), []string{id, "ticket 0"}, rand.N(2) == 0)
		return nil
	},
	"Shrink": func(q *rows.Queue, id string, n int) error { _ = q.Shrink(session(n), id, 1); return nil },
	"Keep":   func(q *rows.Queue, id string, n int) error { _ = q.Keep(session(n), id, ttl/3); return nil },
	"Renew":  func(q *rows.Queue, id string, n int) error { q.Look(session(n), id, true); return nil },
	"Ask": func(q *rows.Queue, id string, _ int) error {
		_ = q.Ask(id, driver.Revoke+driver.Demand(rand.N(3)))
		return nil
	},
	"Raise":  func(q *rows.Queue, _ string, _ int) error { return q.Raise(q.Token + rand.Uint64N(100)) },
	"Resize": func(q *rows.Queue, _ string, _ int) error { return q.Resize(3) },
	"Read": func(q *rows.Queue, _ string, n int) error {
		q.Read(exchange.Follower{Mailbox: session(n).Mailbox})
		return nil
	},
	"nothing": func(*rows.Queue, string, int) error { return nil },
}

// Promise: whatever happens to a queue, after each exchange the tickets that fit are held and no others, none
// of them has expired, each new holder is sent its grant, tokens grow, and a row that is another one is to be
// written. It is plain data: an exchange goes on from what was written.
func TestTheRuleOfAQueue(t *testing.T) {
	names := make([]string, 0, len(steps))
	for name := range steps {
		names = append(names, name)
	}
	for range 100 {
		q, now, token := &rows.Queue{Name: "q"}, start, uint64(0)
		for range 60 {
			before := text(t, q)
			was, fixed := map[string]bool{}, map[string]time.Time{}
			for _, one := range q.Tickets {
				if was[one.ID] = one.Held; one.Fixed {
					fixed[one.ID] = one.End
				}
			}
			now = now.Add(rand.N(ttl / 4))
			step := names[rand.N(len(names))]
			q.Left = func(one *rows.Ticket) { delete(was, one.ID) }
			x := rows.Begin(q, now)
			if err := steps[step](q, fmt.Sprint("ticket ", rand.N(6)), rand.N(3)); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			after := text(t, q)
			if before != after && !x.Changed {
				t.Fatalf("%s changes the row and does not say so:\n%s\n%s", step, before, after)
			}
			units, stood := int64(0), 0
			for _, one := range q.Tickets {
				if _, ok := was[one.ID]; ok {
					stood++
				}
				if units += one.Units; one.Held != (units <= q.Capacity) {
					t.Fatalf("after %s, by the rule %s is held: %v\n%s", step, one.ID, !one.Held, after)
				}
				if end, ok := fixed[one.ID]; ok && step != "Keep" && one.End.After(end) {
					t.Fatalf("%s puts off the fixed end of %s\n%s", step, one.ID, after)
				}
				if !one.End.After(now) {
					t.Fatalf("after %s, %s has expired\n%s", step, one.ID, after)
				}
				if !one.Held || was[one.ID] {
					continue
				}
				if one.Token <= token {
					t.Fatalf("after %s, the token %d comes after %d", step, one.Token, token)
				}
				token = one.Token
				granted := func(ev rows.Event) bool {
					return ev.Type == exchange.Granted && ev.ID == one.ID && ev.Mailbox == one.Session.Mailbox && ev.Status.Token == one.Token
				}
				if !slices.ContainsFunc(x.Events, granted) {
					t.Fatalf("after %s, %s is not told that it is held: %+v", step, one.ID, x.Events)
				}
			}
			if stood != len(was) {
				t.Fatalf("after %s, %d tickets that stood have neither left nor do they stand\n%s", step, len(was)-stood, after)
			}
			q = &rows.Queue{}
			if err := json.Unmarshal([]byte(after), q); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Promise: a dead session holds nothing and is granted nothing, but keeps what has a fixed end. The next one inherits
// from a dead holder, and not from a dead waiter.
func TestTheDeadHoldNothing(t *testing.T) {
	for name, c := range map[string]struct {
		dead      map[int]bool
		fixed     bool
		holds     string
		inherited bool
	}{
		"no one":                            {holds: "a"},
		"a waiter":                          {dead: map[int]bool{2: true}, holds: "a"},
		"the holder":                        {dead: map[int]bool{1: true}, holds: "b", inherited: true},
		"the holder and a waiter":           {dead: map[int]bool{1: true, 2: true}, holds: "c", inherited: true},
		"the holder, which has a fixed end": {dead: map[int]bool{1: true}, fixed: true, holds: "a"},
	} {
		q := &rows.Queue{Name: "q"}
		rows.Begin(q, start)
		for i, id := range []string{"a", "b", "c"} {
			if _, err := q.Join(join(id, i+1)); err != nil {
				t.Fatal(err)
			}
		}
		if c.fixed {
			if err := q.Keep(session(1), "a", ttl/2); err != nil {
				t.Fatal(err)
			}
		}
		q.Dead = func(s exchange.Session) bool {
			for n := range c.dead {
				if s.ID == session(n).ID {
					return true
				}
			}
			return false
		}
		rows.Begin(q, start.Add(1))
		if first := q.Tickets[0]; first.ID != c.holds || !first.Held || first.Inherited != c.inherited {
			t.Errorf("dead: %s. The first is %+v", name, first)
		}
		if gone := q.Withdraw(session(2), []string{"a", "b"}, true); !gone[0] {
			t.Errorf("dead: %s. A ticket of another session is withdrawn", name)
		}
		if len(c.dead) == 0 {
			if err := q.Leave(leave("a", 1)); err != nil || q.Tickets[0].ID != "c" || !q.Tickets[0].Held {
				t.Errorf("after a waiter was withdrawn, and the holder has left: %v, %s", err, text(t, q))
			}
		}
	}
}

// Promise: in a queue whose store grants late, a fixed time begins when the store says so. An eviction does not shorten it.
func TestAFixedTimeThatBeginsLate(t *testing.T) {
	q := &rows.Queue{Name: "q", Late: true}
	rows.Begin(q, start)
	j := join("a", 1)
	j.Hold = ttl / 2
	st, err := q.Join(j)
	if err != nil || st.State != exchange.Held || st.Fixed || st.Left != ttl {
		t.Fatalf("it is %+v, %v", st, err)
	}
	one := q.Ticket("a")
	if one.Fix(2*ttl, start); !one.Fixed || one.Hold != 2*ttl || !one.End.Equal(start.Add(2*ttl)) {
		t.Errorf("it is %+v", one)
	}
	if err := q.Ask("a", driver.Evict); err != nil {
		t.Fatal(err)
	}
	if one.Fix(3*ttl, start); !one.Evicted || !one.End.Equal(start.Add(2*ttl)) {
		t.Errorf("its end is moved by %v", one.End.Sub(start)-2*ttl)
	}
}

// Promise: waiters for any number of units are no reason to grant.
func TestManyUnitsAreNotGranted(t *testing.T) {
	q := &rows.Queue{Name: "q", Kind: driver.Semaphore, Capacity: driver.MaxCapacity}
	for i := range 3000 {
		q.Tickets = append(q.Tickets, &rows.Ticket{ID: fmt.Sprint(i), Units: driver.MaxCapacity, Session: session(1), End: start.Add(ttl)})
	}
	rows.Begin(q, start)
	for i, one := range q.Tickets {
		if one.Held != (i == 0) {
			t.Fatalf("ticket %d is held: %v", i, one.Held)
		}
	}
}

// Promise: an exchange that only looks writes nothing.
func TestALookWritesNothing(t *testing.T) {
	q := &rows.Queue{Name: "q"}
	rows.Begin(q, start)
	if _, err := q.Join(join("a", 1)); err != nil {
		t.Fatal(err)
	}
	x := rows.Begin(q, start.Add(time.Second))
	st := q.Look(session(1), "a", false)
	s := q.Read(exchange.Follower{})
	if st.State != exchange.Held || len(s.Members) != 1 || x.Changed || len(x.Events) > 0 {
		t.Errorf("it is %+v in %+v, and the exchange %+v", st, s, x)
	}
}

// Promise: a fixed end that nobody moves is the same state at any time, though the wall clock and the monotonic one are
// not read at the same moment, and the wall clock may be set between.
func TestTheSameEndIsTheSameState(t *testing.T) {
	q := &rows.Queue{Name: "q"}
	rows.Begin(q, time.Now())
	if _, err := q.Join(join("a", 1)); err != nil {
		t.Fatal(err)
	}
	if err := q.Keep(session(1), "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	version := q.Read(exchange.Follower{}).Version
	for n := range 100_000 {
		rows.Begin(q, time.Now())
		if is := q.Read(exchange.Follower{}).Version; is != version || is == "" {
			t.Fatalf("the version is %q and was %q, %d reads before", is, version, n)
		}
	}
}

// Promise: a waiter that has left, since it asks for more units than there are by then, does not come back with a late
// copy of its Join, and its client is told even if it has missed the event.
func TestAWaiterThatNeverFitsStaysOut(t *testing.T) {
	q := &rows.Queue{Name: "q"}
	j := join("big", 1)
	j.Kind, j.Units, j.Capacity = driver.Semaphore, 3, 3
	holder := j
	holder.ID = "holder"
	for _, j := range []exchange.Join{holder, j} {
		rows.Begin(q, start)
		if _, err := q.Join(j); err != nil {
			t.Fatal(err)
		}
	}
	for _, capacity := range []int64{2, 3} {
		if err := q.Resize(capacity); err != nil {
			t.Fatal(err)
		}
	}
	if st := q.Look(j.Session, j.ID, true); st.State != exchange.Gone || !st.Evicted {
		t.Errorf("a look at what has left says %+v", st)
	}
	if st, err := q.Join(j); err != driver.ErrGone {
		t.Errorf("a late copy of its Join: %+v, %v", st, err)
	}
}

// Promise: a ticket that has expired, or has left with a tombstone, does not come back for one TTL, and may
// then.
func TestATombstoneEndsAtItsTime(t *testing.T) {
	for name, end := range map[string]func(q *rows.Queue){
		"it expires": func(q *rows.Queue) { rows.Begin(q, start.Add(ttl)) },
		"it leaves": func(q *rows.Queue) {
			rows.Begin(q, start.Add(ttl-1))
			l := leave("a", 1)
			l.Tombstone = ttl + 1
			if err := q.Leave(l); err != nil {
				t.Error(err)
			}
		},
	} {
		q := &rows.Queue{Name: "q"}
		rows.Begin(q, start)
		if _, err := q.Join(join("a", 1)); err != nil {
			t.Fatal(err)
		}
		end(q)
		rows.Begin(q, start.Add(2*ttl-1))
		if st, err := q.Join(join("a", 1)); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s, and before one TTL is over: %+v, %v", name, st, err)
		}
		rows.Begin(q, start.Add(2*ttl))
		if _, err := q.Join(join("a", 1)); err != nil {
			t.Errorf("%s, and after one TTL: %v", name, err)
		}
	}
}

// Promise: a row may be removed when it says no more than a new one would.
func TestAnEmptyRow(t *testing.T) {
	q := &rows.Queue{Name: "q"}
	for i, step := range []struct {
		exchange func()
		empty    bool
	}{
		{func() {}, true},
		{func() { _, _ = q.Join(join("a", 1)) }, false},
		{func() { _ = q.Leave(leave("a", 1)) }, true}, // a moment later tokens follow the clock
		{func() { q.Read(exchange.Follower{Mailbox: "m"}) }, false},
		{func() { _, _ = q.Join(join("b", 1)) }, false},
		{func() { _ = q.Ask("b", driver.Force) }, false}, // uncleanly
		{func() { _, _ = q.Join(join("c", 1)) }, false},
		{func() { _ = q.Leave(leave("c", 1)) }, true}, // what was left of b has ended
		{func() {
			_ = q.Leave(exchange.Leave{Ref: exchange.Ref{ID: "d"}, Session: session(1), Tombstone: ttl / 2})
		}, false},
		{func() {}, true},
		{func() { _ = q.Raise(q.Token + 1<<32) }, false},
	} {
		now := start.Add(time.Duration(i) * ttl * 6 / 10)
		rows.Begin(q, now)
		step.exchange()
		rows.Begin(q, now.Add(time.Second))
		if q.Empty() != step.empty {
			t.Errorf("step %d: it is empty: %v; %s", i, q.Empty(), text(t, q))
		}
	}
}

// Promise: a Swap that is repeated within its memory has its first result, a conflict too, and followers are
// told of a change once.
func TestASwapThatIsRepeated(t *testing.T) {
	c := &rows.Cell{Name: "c"}
	now := start
	swap := func(id string, version uint64) (got driver.Cell, told int, err error) {
		written := text(t, c)
		c = &rows.Cell{}
		if err := json.Unmarshal([]byte(written), c); err != nil {
			t.Fatal(err)
		}
		x := rows.Begin(c, now)
		got, err = c.Swap(driver.Swap{ID: id, Name: "c", Version: version, Value: []byte(id)})
		if !x.Changed {
			t.Errorf("%s changes the row, and does not say so", id)
		}
		return got, len(x.Events), err
	}
	rows.Begin(c, now)
	c.Load(exchange.Follower{Mailbox: "m"})
	for i, step := range []struct {
		id      string
		version uint64
		want    uint64 // 0: a conflict
		told    int
		after   time.Duration
	}{
		{id: "a", want: 1, told: 1},
		{id: "b", version: 1, want: 2},
		{id: "a", want: 1},
		{id: "c", version: 1},
		{id: "d", version: 2, want: 3},
		{id: "c", version: 3, after: driver.SwapMemory - time.Second},
		{id: "c", version: 3, want: 4, after: 2 * time.Second},
	} {
		now = now.Add(step.after)
		got, told, err := swap(step.id, step.version)
		if got.Version != step.want || errors.Is(err, driver.ErrConflict) != (step.want == 0) || told != step.told {
			t.Errorf("step %d: %+v, %v, and %d are told", i, got, err, told)
		}
		if step.want != 0 && string(got.Value) != step.id {
			t.Errorf("step %d: the value is %q", i, got.Value)
		}
	}
}

// Promise: a page goes on after the last name of the one before, and ends.
func TestPages(t *testing.T) {
	table := map[string]int{"other": 0}
	var want, got []string
	for i := range 250 {
		name := fmt.Sprintf("name %03d", i)
		if table[name] = i; i%3 > 0 {
			want = append(want, name)
		}
	}
	for from := ""; ; from = got[len(got)-1] {
		page := rows.Page(table, "name", from, func(name string) bool { return table[name]%3 > 0 })
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %d names: %v", len(got), got)
	}
}

// Promise: a floor that leaves no tokens to those who wait is refused, unless the tokens are above it.
func TestAFloorThatLeavesNoTokens(t *testing.T) {
	q := &rows.Queue{Name: "q"}
	rows.Begin(q, start)
	for i := range 3 {
		if _, err := q.Join(join(fmt.Sprint("ticket ", i), i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Raise(driver.MaxToken - 4); !errors.Is(err, exchange.ErrTokens) {
		t.Errorf("three tickets, and a floor above which there are three tokens: %v", err)
	}
	for range 2 {
		if err := q.Raise(driver.MaxToken - 5); err != nil {
			t.Errorf("three tickets, and a floor above which there are four tokens: %v", err)
		}
	}
	if _, err := q.Join(join("ticket 3", 1)); err != nil {
		t.Errorf("a fourth ticket: %v", err)
	}
	if _, err := q.Join(join("ticket 4", 1)); !errors.Is(err, exchange.ErrTokens) {
		t.Errorf("one ticket more than tokens: %v", err)
	}
}
