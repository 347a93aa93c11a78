//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: what the dead have left is removed after a day, and nothing of the living.
func TestTidyRemovesWhatTheDeadHaveLeft(t *testing.T) {
	s, err := openStore(filepath.Join(t.TempDir(), "locks"), defaultMode)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	long := time.Now().Add(-2 * aDay)
	alive, dead, young := exchange.NewID(), exchange.NewID(), exchange.NewID()
	if _, err := s.Begin(t.Context(), exchange.Session{ID: alive}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{dead, young} {
		if err := os.WriteFile(s.dir.file(lives, id), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alive2, dead2, strange := exchange.NewMailbox(), exchange.NewMailbox(), "strange"
	open, err := s.dir.in(mailboxes).Bind(alive2)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for _, name := range []string{dead2, strange} {
		closed, err := s.dir.in(mailboxes).Bind(name)
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		if err := os.WriteFile(s.dir.file(lives, strange), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{s.dir.file(lives, alive), s.dir.file(lives, dead), s.dir.file(lives, strange),
		s.dir.file(mailboxes, alive2), s.dir.file(mailboxes, dead2), s.dir.file(mailboxes, strange)} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Tidy(context.Background()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{s.dir.file(lives, alive): true, s.dir.file(lives, dead): false,
		s.dir.file(lives, young): true, s.dir.file(lives, strange): true,
		s.dir.file(mailboxes, alive2): true, s.dir.file(mailboxes, dead2): false, s.dir.file(mailboxes, strange): true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
}

// session opens a client, whose heartbeats nobody sends.
func session(t *testing.T, dir string) (*store, driver.Session, func()) {
	t.Helper()
	s, err := openStore(dir, defaultMode)
	if err != nil {
		t.Fatal(err)
	}
	d := exchange.New(s, s.mailbox)
	closes := func() { d.Close() }
	t.Cleanup(closes)
	o, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return s, o.Session, closes
}

func request(queue string) driver.Request {
	return driver.Request{ID: rand.Text(), Queue: queue, Kind: driver.Semaphore, Units: 1, Capacity: 1}
}

// Promise: a row that says nothing is removed, and new rows begin above its token, also if the clock
// is set back. A row that says something stays.
func TestTidyForgetsRowsThatSayNothing(t *testing.T) {
	s, session, _ := session(t, filepath.Join(t.TempDir(), "locks"))
	last := uint64(0)
	for queue, leaves := range map[string]string{"empty": "clean", "held": "", "unclean": "unclean", "followed": "clean", "raised": "clean"} {
		ticket, err := session.Join(t.Context(), request(queue))
		if err == nil && leaves != "" {
			err = session.Leave(t.Context(), ticket, leaves == "clean")
		}
		if err != nil {
			t.Fatal(err)
		}
		if queue == "empty" {
			last = ticket.Token
		}
	}
	if _, err := s.Read(t.Context(), "followed", exchange.Follower{Mailbox: exchange.NewMailbox()}); err != nil {
		t.Fatal(err)
	}
	const ahead = 1 << 40
	if err := s.Raise(t.Context(), "raised", last+ahead); err != nil {
		t.Fatal(err)
	}
	if err := s.forget(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for queue, there := range map[string]bool{"empty": false, "held": true, "unclean": true, "followed": true, "raised": true} {
		if _, err := os.Stat(s.dir.file(queues, queue)); (err == nil) != there {
			t.Errorf("%s: %v", queue, err)
		}
	}
	floor, err := s.floor(t.Context(), 0)
	if err != nil || floor < last || floor >= last+ahead {
		t.Errorf("the floor is %d, %v, after token %d", floor, err, last)
	}
	if _, err := s.floor(t.Context(), last+ahead); err != nil { // as if the clock was set back
		t.Fatal(err)
	}
	if again, err := session.Join(t.Context(), request("empty")); err != nil || again.Token <= last+ahead {
		t.Errorf("token %d after %d, %v", again.Token, last+ahead, err)
	}
}

// Promise: while rows are removed all the time, no two hold.
func TestNoTwoHoldWhileRowsAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	tidier, _, _ := session(t, dir)
	done := make(chan struct{})
	var removing, all sync.WaitGroup
	removing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := tidier.forget(t.Context(), 0); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	var inside, last atomic.Int64
	for i := range 2 {
		link := fmt.Sprint(dir, i) // so that it shares no open file, as if it were a process
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 20 {
				_, session, closes := session(t, link)
				for range 20 {
					if err := hold(t, session, &inside, &last); err != nil {
						t.Error(err)
						return
					}
				}
				closes() // so that it opens the file again
			}
		})
	}
	all.Wait()
	close(done)
	removing.Wait()
}

// hold takes and leaves x, unless it is busy: so nobody has it at times.
func hold(t *testing.T, session driver.Session, inside, last *atomic.Int64) error {
	r := request("x")
	r.NoWait = true
	ticket, err := session.Join(t.Context(), r)
	if errors.Is(err, driver.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	if n, before := inside.Add(1), last.Swap(int64(ticket.Token)); n > 1 || before >= int64(ticket.Token) {
		t.Errorf("%d hold, with token %d after %d", n, ticket.Token, before)
	}
	runtime.Gosched()
	inside.Add(-1)
	return session.Leave(t.Context(), ticket, true)
}
