//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"sync"
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
	open, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.sockets + "/open", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.sockets + "/closed", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, path := range []string{s.dir.file(lives, alive), s.dir.file(lives, dead), s.dir.file(mailboxes, "open"), s.dir.file(mailboxes, "closed")} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Tidy(context.Background()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{s.dir.file(lives, alive): true, s.dir.file(lives, dead): false,
		s.dir.file(lives, young): true, s.dir.file(mailboxes, "open"): true, s.dir.file(mailboxes, "closed"): false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
}

// session opens a client, whose heartbeats nobody sends.
func session(t *testing.T, dir string) (*store, driver.Session) {
	t.Helper()
	s, err := openStore(dir, defaultMode)
	if err != nil {
		t.Fatal(err)
	}
	d := exchange.New(s, s.mailbox)
	t.Cleanup(func() { d.Close() })
	o, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return s, o.Session
}

func request(queue string) driver.Request {
	return driver.Request{ID: rand.Text(), Queue: queue, Kind: driver.Semaphore, Units: 1, Capacity: 1}
}

// Promise: a row that says nothing is removed, and its tokens go on, also if they are ahead of the
// clock. One that says something stays.
func TestTidyForgetsRowsThatSayNothing(t *testing.T) {
	s, session := session(t, filepath.Join(t.TempDir(), "locks"))
	tokens := map[string]uint64{}
	for queue, leaves := range map[string]string{"empty": "clean", "held": "", "unclean": "unclean", "followed": "clean"} {
		ticket, err := session.Join(t.Context(), request(queue))
		if err == nil && leaves != "" {
			err = session.Leave(t.Context(), ticket, leaves == "clean")
		}
		if err != nil {
			t.Fatal(err)
		}
		tokens[queue] = ticket.Token
	}
	if _, err := s.Read(t.Context(), "followed", exchange.Follower{Mailbox: "someone"}); err != nil {
		t.Fatal(err)
	}
	const ahead = 1 << 40
	if err := s.Raise(t.Context(), "empty", tokens["empty"]+ahead); err != nil {
		t.Fatal(err)
	}
	if err := s.forget(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for queue := range tokens {
		if _, err := os.Stat(s.dir.file(queues, queue)); (err == nil) != (queue != "empty") {
			t.Errorf("%s: %v", queue, err)
		}
	}
	if again, err := session.Join(t.Context(), request("empty")); err != nil || again.Token <= tokens["empty"]+ahead {
		t.Errorf("token %d after %d, %v", again.Token, tokens["empty"]+ahead, err)
	}
}

// Promise: while rows are removed all the time, no two hold.
func TestNoTwoHoldWhileRowsAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	tidier, _ := session(t, dir)
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
	inside, last := 0, uint64(0)
	for range 4 {
		_, session := session(t, dir)
		all.Go(func() {
			for range 100 {
				ticket, err := session.Join(t.Context(), request("x"))
				if err == nil && !ticket.Held {
					ticket, err = session.Await(t.Context(), ticket)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if inside++; inside > 1 || ticket.Token <= last {
					t.Errorf("%d hold, with token %d after %d", inside, ticket.Token, last)
				}
				last = ticket.Token
				inside--
				if err := session.Leave(t.Context(), ticket, true); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	close(done)
	removing.Wait()
}
