package mysqllock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: a ticket that has ended for two reasons at once, its own end and that of its
// session, is counted out once: else more could hold than fit.
func TestEndedForTwoReasons(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, gone := session(t, s.URL())
	_, stays := session(t, s.URL())
	permit := func(n int, units int64) driver.Request {
		return driver.Request{ID: newID(n), Queue: "q", Kind: driver.Semaphore, Units: units, Capacity: 3}
	}
	for n, who := range []*driver.Opened{gone, stays, stays} {
		joined(t, who, permit(n+1, 1), true)
	}
	s.Do("UPDATE interlock_tickets SET ends = 1, flags = 16 WHERE id = UNHEX('" + newID(1) + "');" +
		"UPDATE interlock_sessions SET gone = 1, ends = 0, ttl = 0 WHERE id = UNHEX('" + gone.ID + "')")
	many := permit(4, 2)
	many.NoWait = true
	if tk, err := stays.Join(t.Context(), many); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("two permits are given while one is free: %+v, %v", tk, err)
	}
	joined(t, stays, permit(5, 1), true)
}

// Promise: a ticket whose session was closed ends, also if it was the only one of its
// queue and others that fit have joined before anybody looked.
func TestOnlyTicketOfAClosedSession(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, gone := session(t, s.URL())
	_, stays := session(t, s.URL())
	permit := func(n int, units int64) driver.Request {
		return driver.Request{ID: newID(n), Queue: "q", Kind: driver.Semaphore, Units: units, Capacity: 3}
	}
	joined(t, gone, permit(1, 1), true)
	noError(t, gone.Close(t.Context()))
	for n := range 3 {
		joined(t, stays, permit(n+2, 1), true)
	}
}

// Promise: a renewal that is committed while another client takes out what has ended keeps
// its ticket, also if that client has read the earlier end of the session.
func TestRenewalThatIsCommittedBesideASweep(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, other := session(t, s.URL())
	for n, place := range []string{"alone", "with others"} { // that is a row of the queues, or one of its own
		d, one := session(t, s.URL()) // its client may look meanwhile, and take it for over
		held, err := one.Join(t.Context(), mutex(place, 2*n+1))
		if err == nil && place == "with others" {
			_, err = other.Join(t.Context(), mutex(place, 2*n+2))
		}
		if err != nil || !held.Held {
			t.Fatal(held, err)
		}
		// The end that others see has passed. The renewal began before it.
		s.Do("UPDATE interlock_sessions SET ends = 1 WHERE id = UNHEX('" + one.ID + "'); UPDATE interlock_tickets SET since = 0; UPDATE interlock_queues SET since = 0")
		renewal := transaction(t, s, "UPDATE interlock_sessions SET ends = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl WHERE id = UNHEX(?)", one.ID)
		done := make(chan error, 1)
		go func() { done <- d.Ask(context.Background(), place, newID(0), driver.Revoke) }()
		waitsForRow(t, s) // it has read the end of the session
		noError(t, renewal.Commit())
		errtest.MustBe(t, <-done, driver.ErrGone)
		if got := s.Do("SELECT gone = 0 AND ends > 1 FROM interlock_sessions WHERE id = UNHEX('" + one.ID + "')"); got != "1" {
			t.Fatalf("%s: the session that was renewed stands: %s", place, got)
		}
		q := errtest.Must(d.Follow(t.Context(), place, ""))(t)
		if len(q.Members) != n+1 {
			t.Errorf("%s: the members are %+v", place, q.Members)
		}
		for _, m := range q.Members {
			if m.Held != (m.ID == held.ID) {
				t.Errorf("%s: another one holds beside it: %+v", place, q.Members)
			}
		}
	}
}

// Promise: who takes out a ticket of a session that has ended ends the session for good: a
// renewal that began before that end is told so, however late it comes.
func TestTakingOutEndsTheSession(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, other := session(t, s.URL())
	for n, place := range []string{"alone", "with others"} { // that is a row of the queues, or one of its own
		db, one := oneConnection(t, s, 10*time.Minute)
		held, err := one.Join(t.Context(), mutex(place, 2*n+1))
		if err == nil && place == "with others" {
			_, err = other.Join(t.Context(), mutex(place, 2*n+2))
		}
		if err != nil || !held.Held {
			t.Fatal(held, err)
		}
		s.Do("UPDATE interlock_sessions SET ends = ends - 3600000000 WHERE id = UNHEX('" + one.ID + "'); UPDATE interlock_tickets SET since = 0; UPDATE interlock_queues SET since = 0;" +
			"CALL interlock_v5_settle('" + place + "')")
		errtest.Must(db.Exec("SET timestamp = UNIX_TIMESTAMP() - 7200"))(t) // as if it had begun then
		if got, err := one.Renew(t.Context(), []driver.Ticket{held}); !errors.Is(err, driver.ErrSession) {
			t.Errorf("%s: the renewal says %+v, %v", place, got, err)
		}
	}
}

// Promise: a Join whose first answer was lost, and whose ticket has ended since, says that
// it is gone, also if nobody has taken it out.
func TestRepeatedJoinOfATicketThatHasEnded(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, one := session(t, s.URL())
	r := mutex("q", 1)
	r.Hold = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := one.Join(ctx, r); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if code := s.Do("CALL interlock_v5_join('q', UNHEX('" + r.ID + "'), 'mutex', 1, 1, 0, 3600000000, 0, UNHEX('" + one.ID + "'), '', '')"); code[:1] != "0" {
		t.Fatalf("the Join that comes late gets %s", code)
	}
	s.Do("UPDATE interlock_tickets SET ends = 1")
	r.Retry = true
	if got, err := one.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
		t.Errorf("it has got %+v, %v", got, err)
	}
}

// Promise: clients that use a name for the first time at once stand in one line, at every
// level of isolation: nobody goes on seeing what stood before he had the lock.
func TestNewQueueOfMany(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	const clients, names = 4, 25
	sessions := make([]*driver.Opened, clients)
	for i := range sessions {
		_, sessions[i] = session(t, s.URL())
	}
	for name := range names {
		queue := "new/" + newID(name)
		tickets := make(chan driver.Ticket, clients)
		for i, who := range sessions {
			go func() {
				tk, err := who.Join(t.Context(), mutex(queue, name*100+i+1))
				if err != nil {
					t.Error(err)
				}
				tickets <- tk
			}()
		}
		held := 0
		for range clients {
			if tk := <-tickets; tk.Held {
				held++
			}
		}
		if got := s.Do("SELECT COUNT(*) FROM interlock_tickets t JOIN interlock_queues q ON q.no = t.queue WHERE q.name = '" + queue +
			"' AND q.tickets = 4 AND q.waiting = 3 AND q.used = 1"); held != 1 || got != "4" {
			t.Fatalf("%d of %d hold, and %s tickets are counted", held, clients, got)
		}
	}
}

// Promise: tokens grow over the removal of rows that nobody has used for an hour, whatever
// the clock says.
func TestTokensOverTheRemovalOfAQueue(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, a := session(t, s.URL())
	r := driver.Request{ID: newID(1), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
	first := errtest.Must(a.Join(t.Context(), r))(t)
	noError(t, a.Leave(t.Context(), first, true))
	const ahead = 1 << 40 // as if the clock had been far ahead
	s.Do("UPDATE interlock_queues SET last = last + 1099511627776, granted = granted + 1099511627776, since = since - 7200000000;" +
		"CALL interlock_v5_tidy(0, 1000000)")
	if left := s.Do("SELECT COUNT(*) FROM interlock_queues"); left != "0" {
		t.Fatalf("%s rows of idle queues are kept", left)
	}
	r.ID = newID(2)
	second, err := a.Join(t.Context(), r)
	if err != nil || second.Token <= first.Token+ahead {
		t.Errorf("the token %d after %d and the removal of the row, %v", second.Token, first.Token+ahead, err)
	}
}
