package sqlitelock

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/errtest"
)

// A ticket whose fixed end has passed does not stand, though nobody has taken it out
// yet.
func TestAFixedEndThatHasPassed(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	for what, call := range map[string]func(driver.Ticket) error{
		"Leave":  func(tk driver.Ticket) error { return s.Leave(t.Context(), tk, true) },
		"Keep":   func(tk driver.Ticket) error { return s.Keep(t.Context(), tk, time.Hour) },
		"Shrink": func(tk driver.Ticket) error { return s.Shrink(t.Context(), tk, 1) },
	} {
		r := mutex(what)
		r.Hold = time.Millisecond
		tk := s.mustJoin(t, r, true)
		time.Sleep(2 * time.Millisecond)
		if err := call(tk); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s of a ticket whose end has passed: %v", what, err)
		}
		s.mustJoin(t, mutex(what), true)
	}
}

// A Join that was called before its session was closed, and gets its turn after that,
// makes no ticket: nobody would take it out.
func TestAJoinThatComesAfterClose(t *testing.T) {
	d := start(t, newFile(t))
	for range 10 {
		s := begin(t, d)
		noError(t, d.store.file.lock.take(t.Context(), nil))
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		closed, joined := make(chan error, 1), make(chan error, 1)
		go func() { closed <- s.Close(ctx) }()
		waitForLock(t, 1)
		go func() {
			joined <- exchange.Alone(ctx, s.store, &exchange.Join{Request: mutex("q"), Session: exchangetest.RowOf(s.Opened)}).Err
		}()
		waitForLock(t, 2)
		d.store.file.lock.pass()
		errtest.Is(t, <-joined, driver.ErrSession, "Join after Close")
		errtest.Is(t, <-closed, nil, "Close")
		if q, err := d.Follow(t.Context(), "q", ""); err != nil || len(q.Members) != 0 {
			t.Fatalf("a ticket of a closed session stands: %v, %v", q.Members, err)
		}
	}
}

// waitForLock returns when so many goroutines of this program wait for their turn to write.
func waitForLock(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		found := waiting()
		if found == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait for their turn, not %d", found, want)
		}
	}
}

// waiting counts them.
func waiting() int {
	stacks := make([]byte, 1<<20)
	return len(waits.FindAll(stacks[:runtime.Stack(stacks, true)], -1))
}

var waits = regexp.MustCompile(`(?m)^goroutine \d+ \[select[^\n]*\]:\n(?:[^\n]+\n)*?[^\n]*\(\*writeLock\)\.take\(`)

// alone calls f while the driver does not use its connections.
func alone(t *testing.T, d *client, f func()) {
	for {
		if err := d.store.file.lock.take(t.Context(), nil); err == nil {
			break
		}
	}
	defer d.store.file.lock.pass()
	d.store.file.reading <- struct{}{}
	defer func() { <-d.store.file.reading }()
	f()
}

// Numbers of queues that are made anew are above those of every queue that was
// forgotten, in whatever order.
func TestTheFloorIsThatOfTheLargest(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	largest := uint64(0)
	for _, name := range []string{"a", "b", "c"} {
		tk := s.mustJoin(t, mutex(name), true)
		s.mustLeave(t, tk)
		largest = tk.Token
	}
	const ahead = 1 << 40 // as if the clock had been far ahead when the first was used
	largest += ahead
	rewrite(t, d, "a", func(q *queue) { q.Token += ahead })
	for _, name := range []string{"a", "b", "c"} {
		rewrite(t, d, name, long)
		d.store.forgetQueues(t.Context())
	}
	if n := count(t, d, "SELECT count(*) FROM queue"); n != 0 {
		t.Fatalf("%d idle queues are kept", n)
	}
	again := s.mustJoin(t, mutex("a"), true)
	if again.Token+1<<20 < largest {
		t.Errorf("the token %d of a queue that was forgotten, after about %d", again.Token, largest)
	}
}

// A fixed time that begins with a grant is proven from the grant on, not from the Join
// that waited for it: else its holder would be ended early.
func TestAFixedTimeIsProvenFromItsGrant(t *testing.T) {
	d := start(t, newFile(t))
	for what, other := range map[string]*client{"in the process": d, "by a message": start(t, d.store.file.path)} {
		s := begin(t, other)
		front := s.mustJoin(t, mutex(what), true)
		r := mutex(what)
		r.Hold = time.Hour
		waiter := begin(t, d)
		tk := waiter.mustJoin(t, r, false)
		time.Sleep(200 * time.Millisecond)
		joined := driver.Now().Add(-100 * time.Millisecond)
		s.mustLeave(t, front)
		got := waiter.mustAwait(t, tk)
		if got.Proof < joined || got.Proof > driver.Now() {
			t.Errorf("granted %s: proven from %v on, 100 ms or more before the grant or after now", what, got.Proof.Sub(joined))
		}
	}
}

// Keep proves no more than what was true when it was written: its answer may be late.
func TestKeepIsProvenFromBeforeItsExchange(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	r := mutex("q")
	tk := s.mustJoin(t, r, true)
	var written driver.Instant
	late(t, d.store, func() <-chan struct{} {
		written = driver.Now()
		on := make(chan struct{})
		close(on)
		return on
	})
	noError(t, s.Keep(t.Context(), tk, time.Hour))
	r.Retry = true
	if again := s.mustJoin(t, r, true); again.Proof > written || again.Proof == 0 {
		t.Errorf("it is proven from %v after it was written", again.Proof.Sub(written))
	}
}

// Who waits for a ticket whose end was moved forward has its grant then, and not with the next
// heartbeat, a third of the TTL later.
func TestWhoWaitsHearsOfAnEarlierEnd(t *testing.T) {
	da := start(t, newFile(t))
	a, b := begin(t, da), begin(t, start(t, da.store.file.path)) // of an hour
	held := a.mustJoin(t, mutex("q"), true)
	next := b.mustJoin(t, mutex("q"), false)
	noError(t, a.Keep(t.Context(), held, 100*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := b.Await(ctx, next); err != nil || !got.Held {
		t.Errorf("%+v, %v", got, err)
	}
}

// A Join that is repeated does not find its ticket when that has expired, though no client has taken
// it out yet.
func TestARepeatedJoinDoesNotFindAnExpiredTicket(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	r := mutex("q")
	r.Hold = time.Millisecond
	s.mustJoin(t, r, true)
	time.Sleep(2 * time.Millisecond)
	r.Retry = true
	if a := exchange.Alone(t.Context(), d.store, &exchange.Join{Request: r, Session: exchangetest.RowOf(s.Opened)}); !errors.Is(a.Err, driver.ErrGone) {
		t.Errorf("its time is over, and it was found: %+v", a)
	}
}

// Promise: a waiter whose session has expired gets nothing, also if that was not noticed before its
// turn: a fixed time would begin with the grant, and keep the others waiting. However many such
// waiters are in front, the next one that lives holds.
func TestNothingIsGrantedToTheDead(t *testing.T) {
	d := start(t, newFile(t))
	a, dead, b := begin(t, d), begin(t, d), begin(t, d)
	held := a.mustJoin(t, mutex("q"), true)
	for range 2*batch + 1 {
		r := mutex("q")
		r.Hold = time.Hour
		dead.mustJoin(t, r, false)
	}
	next := b.mustJoin(t, mutex("q"), false)
	rewrite(t, d, "q", func(q *queue) { // and in rows of their own
		for _, p := range append(q.Tickets, q.tail.All()...) {
			if p.HoldFor > 0 {
				p.End = time.Unix(0, 1)
				q.tail.Save(p)
			}
		}
	})
	noError(t, a.Leave(t.Context(), held, true))
	got, err := b.Renew(t.Context(), []driver.Ticket{next})
	q, errRead := d.Follow(t.Context(), "q", "")
	if err != nil || errRead != nil || len(got) != 1 || got[0].State != driver.Kept || len(q.Members) != 1 || !q.Members[0].Held {
		t.Errorf("the next one that lives: %+v, %v; the queue: %d, %v", got, err, len(q.Members), errRead)
	}
}

// A Join that comes after the Leave of its ticket, which asked for a tombstone, makes no ticket.
func TestATombstoneRefusesALateJoin(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	r, row := mutex("q"), exchangetest.RowOf(s.Opened)
	l := exchange.Leave{Ref: exchange.Ref{Queue: r.Queue, ID: r.ID}, Session: row, Tombstone: time.Minute}
	if err := exchange.Alone(t.Context(), d.store, &l).Err; !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Leave: %v", err)
	}
	for _, r.Retry = range []bool{false, true} {
		if a := exchange.Alone(t.Context(), d.store, &exchange.Join{Request: r, Session: row}); !errors.Is(a.Err, driver.ErrGone) {
			t.Errorf("a Join after its Leave: %+v", a)
		}
	}
	s.mustJoin(t, mutex("q"), true)
}
