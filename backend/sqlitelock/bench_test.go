package sqlitelock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func mutex(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

func open(t testing.TB, path string) driver.Driver {
	t.Helper()
	d, err := sqlitelock.New(t.Context(), path)
	noError(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func session(t testing.TB, d driver.Driver, ttl time.Duration) *driver.Opened {
	t.Helper()
	s, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl, Owner: "test"})
	noError(t, err)
	return s
}

// The yardstick: one transaction that updates one row, by the same connection
// settings.
func BenchmarkOneRow(b *testing.B) {
	c, err := sqlite.OpenConn(filepath.Join(b.TempDir(), "locks.db"), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	noError(b, err)
	defer c.Close()
	run := func(sql string, args ...string) {
		s, err := c.Prepare(sql)
		noError(b, err)
		for i, a := range args {
			s.BindText(i+1, a)
		}
		for more := true; more; {
			if more, err = s.Step(); err != nil {
				b.Fatal(err)
			}
		}
	}
	run("PRAGMA synchronous = NORMAL")
	run("CREATE TABLE t(name TEXT PRIMARY KEY, holder TEXT) WITHOUT ROWID")
	run("INSERT INTO t VALUES (?, ?)", "q", "")
	for b.Loop() {
		run("UPDATE t SET holder = ? WHERE name = ?", newID(), "q")
	}
}

// Uncontended: Join and Leave together.
func BenchmarkJoinLeave(b *testing.B) {
	s := session(b, open(b, filepath.Join(b.TempDir(), "locks.db")), time.Hour)
	ctx := context.Background()
	for b.Loop() {
		t, err := s.Join(ctx, mutex("q"))
		noError(b, err)
		noError(b, s.Leave(ctx, t, true))
	}
}

// Contended: the lock goes round among n waiters of two drivers.
func BenchmarkHandOver(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "locks.db")
			ctx := context.Background()
			sessions := []*driver.Opened{session(b, open(b, path), time.Hour), session(b, open(b, path), time.Hour)}
			type place struct {
				s *driver.Opened
				t driver.Ticket
			}
			line := make(chan place, n+1)
			join := func(i int) {
				s := sessions[i%2]
				t, err := s.Join(ctx, mutex("q"))
				noError(b, err)
				line <- place{s, t}
			}
			for i := range n + 1 {
				join(i)
			}
			i := n + 1
			for b.Loop() {
				p := <-line
				t, err := p.s.Await(ctx, p.t)
				noError(b, err)
				join(i)
				i++
				noError(b, p.s.Leave(ctx, t, true))
			}
		})
	}
}

// What a short-lived process pays: everything from opening the file to closing it.
func BenchmarkOpenLockClose(b *testing.B) {
	path := filepath.Join(b.TempDir(), "locks.db")
	open(b, path)
	ctx := context.Background()
	for b.Loop() {
		d, err := sqlitelock.New(ctx, path)
		noError(b, err)
		s, err := d.Open(ctx, driver.SessionOptions{TTL: 15 * time.Second})
		noError(b, err)
		t, err := s.Join(ctx, mutex("q"))
		noError(b, err)
		noError(b, s.Leave(ctx, t, true))
		noError(b, s.Close(ctx))
		noError(b, d.Close())
	}
}
