package memlock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
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

func reader(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.RWMutex, Units: 1, Capacity: driver.RWCapacity}
}

func writer(queue string) driver.Request {
	r := reader(queue)
	r.Units = driver.RWCapacity
	return r
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
