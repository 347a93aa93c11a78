package redislock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// What must not wait for a server is done soon, however busy the machine, while with
// these timeouts whoever does wait takes a minute.
const (
	soon    = 20 * time.Second
	patient = "timeout=1m&dial_timeout=1m"
)

var noError, says = errtest.None, errtest.Says

func exclusive(queue string) driver.Request { return request(queue, 1, 1) }

// joined is a ticket that is held at once, or waits.
func joined(t *testing.T, s *driver.Opened, r driver.Request, held bool) driver.Ticket {
	t.Helper()
	tk, err := s.Join(t.Context(), r)
	if err != nil || tk.Held != held {
		t.Fatalf("%q: %+v, %v; to be held at once: %v", r.Queue, tk, err, held)
	}
	return tk
}

// inTime makes sure that a call has not waited for the server.
func inTime(t *testing.T, what string, began time.Time, err error) {
	t.Helper()
	if took := time.Since(began); took > soon {
		t.Errorf("%s took %v: %v", what, took, err)
	}
}

// patientOption is patient for a client of the test's own.
func patientOption(s *redistest.Server) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{s.Addr}, DisableCache: true, ConnWriteTimeout: time.Minute, Dialer: net.Dialer{Timeout: time.Minute},
	}
}

// warm makes sure that the server knows the scripts that a test disturbs.
func warm(t *testing.T, s *driver.Opened) {
	t.Helper()
	a := errtest.Must(s.Join(t.Context(), exclusive("warm")))(t)
	b := errtest.Must(s.Join(t.Context(), exclusive("warm")))(t)
	errtest.Must(s.Renew(t.Context(), []driver.Ticket{a, b}))(t)
	_ = s.Leave(t.Context(), a, true)
	_ = s.Leave(t.Context(), b, true)
}

// session opens a driver with one session.
func session(t *testing.T, url string, ttl time.Duration) (driver.Driver, *driver.Opened) {
	t.Helper()
	d := errtest.Must(openURL(t.Context(), url))(t)
	t.Cleanup(func() { d.Close() })
	s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
	return d, s
}

// awaited waits until the ticket is held, for a minute at most.
func awaited(t *testing.T, s *driver.Opened, tk driver.Ticket) driver.Ticket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	got, err := s.Await(ctx, tk)
	if err != nil {
		t.Fatalf("the ticket %s of %q is not granted: %v", tk.ID, tk.Queue, err)
	}
	return got
}

func request(queue string, units, capacity int64) driver.Request {
	var id [16]byte
	_, _ = rand.Read(id[:])
	kind := driver.Mutex
	if capacity > 1 {
		kind = driver.RWMutex
	}
	return driver.Request{ID: hex.EncodeToString(id[:]), Queue: queue, Kind: kind, Units: units, Capacity: capacity}
}

// joinMany joins n times, many at once.
func joinMany(t *testing.T, s *driver.Opened, n int, r func() driver.Request) []driver.Ticket {
	t.Helper()
	all := make([]driver.Ticket, n)
	const at = 50
	var wg sync.WaitGroup
	for k := range at {
		wg.Go(func() {
			for i := k; i < n; i += at {
				var err error
				if all[i], err = s.Join(t.Context(), r()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

func do(t *testing.T, s *redistest.Server, args ...string) any {
	t.Helper()
	v, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func acquire(t *testing.T, l *interlock.Lock) *interlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	lease, err := l.Acquire(ctx)
	if err != nil {
		t.Errorf("Acquire: %v", err)
		return nil
	}
	return lease
}

func release(t *testing.T, l *interlock.Lease) {
	t.Helper()
	errtest.MustBe(t, l.Release(), nil, "Release")
}

// waiting waits until so many wait for the lock.
func waiting(t *testing.T, c *interlock.Client, name string, n int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(2 * time.Millisecond) {
		got := 0
		for q, err := range c.Admin().Queues(t.Context(), name) {
			if err != nil {
				t.Fatal(err)
			}
			if q.Name == name {
				got = len(q.Waiters)
			}
		}
		if got >= n {
			return
		}
	}
	t.Fatalf("there are not %d who wait for %q", n, name)
}

// renew makes sure that the tickets are kept, and returns what became of them.
func renew(t *testing.T, s *driver.Opened, known ...driver.Ticket) map[string]driver.Renewed {
	t.Helper()
	answer := errtest.Must(s.Renew(t.Context(), known))(t)
	all := map[string]driver.Renewed{}
	for _, r := range answer {
		all[r.ID] = r
	}
	for _, tk := range known {
		if r, ok := all[tk.ID]; !ok || r.State != driver.Kept {
			t.Fatalf("Renew of %s: %+v", tk.ID, answer)
		}
	}
	return all
}

func configure(t *testing.T, s *redistest.Server, key, value string) {
	t.Helper()
	errtest.Must(s.Do("CONFIG", "SET", key, value))(t)
}

// openOnce opens a driver and a session at a URL.
func openOnce(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	d, err := openURL(ctx, url)
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Minute})
	if err != nil {
		return err
	}
	_, err = s.Join(ctx, mutex(newID()))
	return err
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x", b)
}

func mutex(name string) driver.Request {
	return driver.Request{ID: newID(), Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

func opener(t *testing.T, url string, opts ...interlock.ClientOption) func() *interlock.Client {
	return func() *interlock.Client {
		t.Helper()
		c := errtest.Must(interlock.Open(t.Context(), url, opts...))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// replicated are a master and its replica, which is in sync.
func replicated(t *testing.T) (master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t)
	return master, replicaOf(t, master)
}

func replicaOf(t *testing.T, master *redistest.Server) *redistest.Server {
	t.Helper()
	replica := redistest.Start(t, redistest.Config("replicaof", "127.0.0.1", strconv.Itoa(master.Port)))
	busy.Until(t, "the replica is in sync", func() bool {
		return strings.Contains(fmt.Sprint(do(t, master, "INFO", "replication")), "port="+strconv.Itoa(replica.Port)+",state=online")
	})
	return replica
}
