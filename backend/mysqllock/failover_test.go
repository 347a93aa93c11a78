package mysqllock_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// Promise: a replica that takes over without the last grants of its primary gives out none of
// their tokens again, also after raises far above the clock, of which a second one lowers
// nothing.
func TestAFailoverRepeatsNoToken(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("the commands for a replica are those of MariaDB")
	}
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	d, before := session(t, primary.URL())
	tabletest.Failover{Driver: d, Before: before,
		Detach:  func() { replica.CatchUp(primary); replica.Detach() },
		Promote: func() *driver.Opened { primary.Kill(); replica.Promote(); _, s := session(t, replica.URL()); return s },
	}.RepeatsNoToken(t)
}

// both is the URL of a primary and its replica.
func both(primary, replica *mysqltest.Server) string {
	return strings.Replace(primary.URL(), primary.Addr, primary.Addr+","+replica.Addr, 1)
}

// Promise: a lock whose release the replica has not received when it takes over is free again
// soon, though the client that has released it lives; what that holds stays its own.
func TestAFailoverThatHasLostAReleaseBlocksNobody(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("the commands for a replica are those of MariaDB")
	}
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	tabletest.LosesReleases(t, both(primary, replica), func() { replica.CatchUp(primary); replica.Detach() }, func() {
		primary.Kill()
		replica.Promote()
	})
}

// Promise: while a server is read-only, as during a switch-over, a Release and an Acquire
// go on trying, also one that has just begun; nobody who waits is sent away.
func TestAReadOnlyServerEndsNothing(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	const ttl = time.Minute
	var clients []*interlock.Client
	for range 3 {
		c := errtest.Must(interlock.Open(t.Context(), s.URL(), interlock.TTL(ttl)))(t)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	held := errtest.Must(clients[0].Mutex("m").Acquire(t.Context()))(t)
	work := func(c *interlock.Client) <-chan error {
		done := make(chan error, 1)
		go func() {
			lease, err := c.Mutex("m").Acquire(t.Context())
			if err == nil {
				err = lease.Release()
			}
			done <- err
		}()
		return done
	}
	calls := map[string]<-chan error{"an Acquire that waited": work(clients[1])}
	busy.Until(t, "one waits", func() bool { return waiters(t, clients[0], "m") == 1 })
	s.Set("read_only", "1")
	released := make(chan error, 1)
	go func() { released <- held.Release() }()
	calls["the Release"] = released
	calls["an Acquire that began meanwhile"] = work(clients[2])
	time.Sleep(time.Second)
	s.Set("read_only", "0")
	limit := time.After(ttl / 2)
	for what, call := range calls {
		select {
		case err := <-call:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-limit:
			t.Fatalf("%s has no end, half a TTL after the server can be written to again", what)
		}
	}
}

// Promise: who waits for a row keeps nobody from the lock of the whole server, which a
// switch-over takes, for longer than a moment: all heartbeats stand still meanwhile. It goes on
// waiting afterwards, on the connections that there are.
func TestWhoWaitsForARowHoldsUpNoSwitchOver(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, one := session(t, s.URL())
	first := errtest.Must(one.Join(t.Context(), mutex("q", 1)))(t)
	unlock := locked(t, s, "q")
	joined := make(chan error, 1)
	go func() { _, err := one.Join(t.Context(), mutex("q", 2)); joined <- err }()
	waitsForRow(t, s)
	before := s.Threads("user = 'app'")
	began := time.Now()
	s.Do("SET SESSION lock_wait_timeout = 60; FLUSH TABLES WITH READ LOCK; UNLOCK TABLES")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the whole server is locked after %v", took)
	}
	unlock()
	errtest.Is(t, <-joined, nil, "who waited for the row")
	after := s.Threads("user = 'app'")
	for _, id := range before {
		if !slices.Contains(after, id) {
			t.Errorf("of the connections %d are left %d", before, after)
		}
	}
	errtest.Is(t, one.Leave(t.Context(), first, true), nil)
}

// Promise: when locks have moved to another server, waiters soon hear of their grants from there, also
// if the old one goes on, read-only: they do not wait for news that it does not have.
func TestAPlannedSwitchOverTakesWaitersAlong(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("the commands for a replica are those of MariaDB")
	}
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	const ttl = 6 * time.Second
	open := func() *interlock.Client {
		c := errtest.Must(interlock.Open(t.Context(), both(primary, replica), interlock.TTL(ttl)))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	holder, waiter := open(), open()
	held := errtest.Must(holder.Mutex("m").Acquire(t.Context()))(t)
	granted := make(chan error, 1)
	go func() {
		lease, err := waiter.Mutex("m").Acquire(t.Context())
		if err == nil {
			err = lease.Release()
		}
		granted <- err
	}()
	listens := func(s *mysqltest.Server) func() bool {
		return func() bool { return len(s.Threads("user = 'app' AND state = 'User lock'")) > 0 }
	}
	busy.Until(t, "somebody waits", func() bool { return waiters(t, holder, "m") == 1 })
	busy.Until(t, "somebody listens", listens(primary))
	primary.Set("read_only", "1")
	replica.CatchUp(primary)
	replica.Promote()
	busy.Until(t, "somebody listens on the new primary", listens(replica))
	noError(t, held.Release())
	noError(t, <-granted)
}

func waiters(t *testing.T, c *interlock.Client, name string) (n int) {
	t.Helper()
	for q, err := range c.Admin().Queues(t.Context(), name) {
		noError(t, err)
		n += len(q.Waiters)
	}
	return n
}
