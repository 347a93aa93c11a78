package sqlitelock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

var noError = errtest.None

// limit bounds every wait for something that must happen.
const limit = time.Minute

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "locks.db") }

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(limit))
	t.Cleanup(cancel)
	return ctx
}

func join(t testing.TB, s *driver.Opened, r driver.Request, held bool) driver.Ticket {
	t.Helper()
	got := errtest.Must(s.Join(t.Context(), r))(t)
	if got.Held != held {
		t.Fatalf("Join: held %v", got.Held)
	}
	return got
}

func await(t testing.TB, s *driver.Opened, tk driver.Ticket) driver.Ticket {
	t.Helper()
	got, err := s.Await(within(t), tk)
	if err != nil {
		t.Fatalf("Await: %v", err)
	}
	return got
}

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
	d := errtest.Must(sqlitelock.New(t.Context(), path))(t)
	t.Cleanup(func() {
		errtest.Is(t, d.Close(), nil)
	})
	return d
}

func session(t testing.TB, d driver.Driver, ttl time.Duration) *driver.Opened {
	t.Helper()
	s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl, Owner: "test"}))(t)
	return s
}
