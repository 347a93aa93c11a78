//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/flock"
)

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

// Promise: a Join whose context ends while the last holder, which was taken out, has not unlocked the file yet says so. It does not say that
// its ticket waits, which is the first one.
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
	other, err := openStore(dir, defaultMode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
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

// Promise: the fixed time of a ticket begins when its client has locked the file, which another program may have locked, and
// when it is over, the file is unlocked, though no call is made.
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
