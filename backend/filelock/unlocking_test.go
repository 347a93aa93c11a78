//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/flock"
)

// apart is a path by which a client shares no more with those of dir than one of another process.
func apart(t *testing.T, dir string) string {
	if err := os.Symlink(dir, dir+"-link"); err != nil {
		t.Fatal(err)
	}
	return dir + "-link"
}

// endsAt is a context that ends when it is looked at for the nth time.
type endsAt struct {
	context.Context
	n int
}

func (c *endsAt) Err() error {
	if c.n--; c.n <= 0 {
		return context.Canceled
	}
	return nil
}

// Promise: a Join whose context ends while the last holder, which was taken out, has not unlocked the file yet says so.
// It does not say that its ticket waits, which is the first one.
func TestAJoinThatEndsBeforeTheFileIsUnlockedSaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	join := func(ctx context.Context) (*store, driver.Request, exchange.Status, error) {
		s, err := openStore(dir, defaultMode)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		o := exchange.Session{ID: exchange.NewID(), TTL: time.Hour, Mailbox: s.mailbox}
		if _, err := s.Begin(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		r := driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
		st, err := s.Join(ctx, exchange.Join{Request: r, Session: o})
		return s, r, st, err
	}
	s, r, st, err := join(t.Context()) // and hears nothing
	if err != nil || st.State != exchange.Held {
		t.Fatal(st, err)
	}
	other, _, _ := session(t, apart(t, dir))
	if _, err := other.Ask(t.Context(), "q", r.ID, driver.Force); err != nil {
		t.Fatal(err)
	}
	if err := s.change(t.Context(), "q", func(q *queue) error {
		q.Unlocking, q.Changed = q.now.Add(time.Hour), true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, st, err := join(&endsAt{t.Context(), 2}); !errors.Is(err, context.Canceled) { // first it is looked at before the row is read
		t.Errorf("it is %+v: %v", st, err)
	}
}

// Promise: the fixed time of a ticket begins when its client has locked the file, which another program may have
// locked, and when it is over, the file is unlocked, though no call is made.
func TestAFixedTimeIsThatOfTheLockedFile(t *testing.T) {
	s, err := openStore(filepath.Join(t.TempDir(), "locks"), defaultMode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	program := s.dir.handle(top, "q")
	if err := s.dir.open(&program); err != nil {
		t.Fatal(err)
	}
	defer program.close()
	locks := func() bool {
		ok, err := flock.Try(program.file)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !locks() {
		t.Fatal("a new file is locked")
	}
	o := exchange.Session{ID: exchange.NewID(), TTL: time.Hour, Mailbox: s.mailbox}
	r := driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1, Hold: 3 * time.Second}
	st, err := s.Join(t.Context(), exchange.Join{Request: r, Session: o})
	if err != nil || st.State != exchange.Waiting || st.Fixed {
		t.Fatalf("behind another program: %+v, %v", st, err)
	}
	if err := flock.Unlock(program.file); err != nil {
		t.Fatal(err)
	}
	all, err := s.Look(t.Context(), o, []exchange.Ref{{Queue: "q", ID: r.ID}})
	if err != nil || all[0].State != exchange.Held || !all[0].Fixed || locks() {
		t.Fatalf("after it: %+v, %v", all, err)
	}
	busy.Until(t, "the file is unlocked", locks)
}

// Promise: a ticket that is evicted, and whose fixed end another process moves up after that, does not keep the file
// locked, though its client makes no call: it is told.
func TestAnEvictedTicketDoesNotKeepTheFileLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	s, _, _ := session(t, dir)
	other, _, _ := session(t, apart(t, dir))
	busy.Until(t, "it listens", func() bool { return s.receive.Load() != nil })
	o := exchange.Session{ID: exchange.NewID(), TTL: time.Second, Mailbox: s.mailbox}
	r := driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1, Hold: time.Hour}
	if st, err := s.Join(t.Context(), exchange.Join{Request: r, Session: o}); err != nil || !st.Fixed {
		t.Fatalf("%+v, %v", st, err)
	}
	if _, err := other.Ask(t.Context(), "q", r.ID, driver.Evict); err != nil {
		t.Fatal(err)
	}
	if err := other.Keep(t.Context(), o, exchange.Ref{Queue: "q", ID: r.ID}, time.Second); err != nil {
		t.Fatal(err)
	}
	program := s.dir.handle(top, "q")
	if err := s.dir.open(&program); err != nil {
		t.Fatal(err)
	}
	defer program.close()
	busy.Until(t, "the file is unlocked", func() bool {
		_, err := other.Settle(t.Context(), "q")
		ok, failed := flock.Try(program.file)
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return ok
	})
}

// Promise: a client that is closed gives up its locks at once, though its process goes on.
func TestAClosedClientUnlocksItsFiles(t *testing.T) {
	s, locks, closes := session(t, filepath.Join(t.TempDir(), "locks"))
	program := s.dir.handle(top, "q")
	if err := s.dir.open(&program); err != nil {
		t.Fatal(err)
	}
	defer program.close()
	r := request("q")
	r.Kind = driver.Mutex
	if ticket, err := locks.Join(t.Context(), r); err != nil || !ticket.Held {
		t.Fatalf("%+v, %v", ticket, err)
	}
	if ok, err := flock.Try(program.file); err != nil || ok {
		t.Errorf("it holds, and the file is locked for another: %v, %v", ok, err)
	}
	closes()
	if ok, err := flock.Try(program.file); err != nil || !ok {
		t.Errorf("it is closed, and the file is locked for another: %v, %v", ok, err)
	}
}

// Promise: a waiter of the same process holds, and its file is locked, by the exchange in which the holder leaves;
// unless its client has just been closed: then nothing keeps the file locked.
func TestAWaiterOfTheSameProcessIsGrantedAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	a, holder, _ := session(t, dir)
	b, waiter, closes := session(t, dir)
	busy.Until(t, "it listens", func() bool { return b.receive.Load() != nil })
	r := request("q")
	r.Kind = driver.Mutex
	join := func(s driver.Session, held bool) driver.Ticket {
		r.ID = exchange.NewID()
		ticket, err := s.Join(t.Context(), r)
		if err != nil || ticket.Held != held {
			t.Fatalf("%+v, %v", ticket, err)
		}
		return ticket
	}
	leave := func(s driver.Session, ticket driver.Ticket) {
		if err := s.Leave(t.Context(), ticket, true); err != nil {
			t.Fatal(err)
		}
	}
	first, second := join(holder, true), join(waiter, false)
	before := b.Exchanges()
	leave(holder, first)
	if second, err := waiter.Await(t.Context(), second); err != nil || !second.Held || b.Exchanges() != before {
		t.Fatalf("%+v, %v, with %d exchanges", second, err, b.Exchanges()-before)
	}
	leave(waiter, second)

	first = join(holder, true)
	join(waiter, false)
	closed := ""
	for id := range b.lives {
		closed = id
	}
	closes()
	a.dir.stores.Store(b.mailbox, b) // it is found before that, and granted after it
	a.dir.alive.Store(closed, true)
	defer a.dir.stores.Delete(b.mailbox)
	defer a.dir.alive.Delete(closed)
	leave(holder, first)
	program := a.dir.handle(top, "q")
	if err := a.dir.open(&program); err != nil {
		t.Fatal(err)
	}
	defer program.close()
	if ok, err := flock.Try(program.file); err != nil || !ok {
		t.Errorf("it is closed, and the file is locked for another: %v, %v", ok, err)
	}
}

// Promise: after a reboot all locks are free, but fixed ends stay.
func TestAfterARebootOnlyFixedEndsStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	s, locks, _ := session(t, dir)
	again, _, _ := session(t, dir)
	again.boot++
	for queue, hold := range map[string]time.Duration{"leased": 0, "fixed": time.Hour} {
		r := request(queue)
		r.Hold = hold
		if ticket, err := locks.Join(t.Context(), r); err != nil || !ticket.Held {
			t.Fatalf("%s: %+v, %v", queue, ticket, err)
		}
		before, err := s.Read(t.Context(), queue, exchange.Follower{})
		if err != nil {
			t.Fatal(err)
		}
		after, err := again.Read(t.Context(), queue, exchange.Follower{})
		if err != nil || len(after.Members) != min(1, int(hold)) {
			t.Errorf("%s: %+v, %v", queue, after.Members, err)
		}
		for i, m := range after.Members {
			if was := before.Members[i]; m.ID != was.ID || (was.Left-m.Left).Abs() > time.Minute {
				t.Errorf("%s: it is %+v, and was %+v", queue, m, was)
			}
		}
	}
}
