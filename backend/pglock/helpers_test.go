package pglock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

var noError = errtest.None

// ttl is longer than any machine stands still: sessions of it need not be renewed.
const ttl = time.Minute

func session(t testing.TB, d driver.Driver) *driver.Opened {
	t.Helper()
	s := errtest.Must(d.Open(context.Background(), driver.SessionOptions{TTL: ttl, Owner: "test"}))(t)
	return s
}

var ids atomic.Int64

func newID() string { return fmt.Sprintf("%032x", ids.Add(1)) }

// request is for a ticket of one unit.
func request(queue string, capacity int64) driver.Request {
	kind := driver.Semaphore
	if capacity == 1 {
		kind = driver.Mutex
	}
	return driver.Request{ID: newID(), Queue: queue, Kind: kind, Units: 1, Capacity: capacity}
}

func join(t testing.TB, s *driver.Opened, r driver.Request) driver.Ticket {
	t.Helper()
	k, err := s.Join(context.Background(), r)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	return k
}

// acquire joins a queue and waits for the grant.
func acquire(t testing.TB, s *driver.Opened, queue string, capacity int64) driver.Ticket {
	t.Helper()
	k := join(t, s, request(queue, capacity))
	if k.Held {
		return k
	}
	k, err := s.Await(t.Context(), k)
	if err != nil {
		t.Fatalf("Await: %v", err)
	}
	return k
}
