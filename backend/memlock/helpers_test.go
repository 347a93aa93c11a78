package memlock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

const ttl = 10 * time.Second

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func open(t testing.TB, d *memlock.Driver) driver.Session {
	t.Helper()
	s, err := d.Open(context.Background(), driver.SessionOptions{TTL: ttl, Owner: "test"})
	ok(t, err)
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mutex(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1, ReportDeath: true}
}

func join(t testing.TB, s driver.Session, r driver.Request) driver.Ticket {
	t.Helper()
	k, err := s.Join(context.Background(), r)
	ok(t, err)
	return k
}

// held asserts whether the ticket is held, by sending its Join again.
func held(t testing.TB, s driver.Session, r driver.Request, want bool) driver.Ticket {
	t.Helper()
	r.Retry = true
	k := join(t, s, r)
	if k.Held != want {
		t.Fatalf("held: %v, want %v", k.Held, want)
	}
	return k
}

func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error: %v, want: %v", err, want)
	}
}

// A bubble also shows that nothing stays behind: it fails if a goroutine is
// left when its test has ended.
func simulated(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble.Run(t, f) })
}

// awaitAt asserts that the ticket is held exactly d after from.
func awaitAt(t *testing.T, s driver.Session, k driver.Ticket, from time.Time, d time.Duration) driver.Ticket {
	t.Helper()
	k, err := s.Await(context.Background(), k)
	ok(t, err)
	if took := time.Since(from); took != d {
		t.Fatalf("granted after %v, want %v", took, d)
	}
	return k
}
