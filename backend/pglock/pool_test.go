package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: a lease is renewed though all connections of the pool are taken by calls
// that do not get on, whether the pool is the driver's own or the program's.
func TestHeartbeatsDoNotQueueForAConnection(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	const connections = 1
	url := fmt.Sprintf("%s&pool_max_conns=%d", server.URL(), connections)
	program := errtest.Must(pgxpool.New(t.Context(), url))(t)
	t.Cleanup(program.Close)
	for name, open := range map[string]func() (driver.Driver, error){
		"own pool":     func() (driver.Driver, error) { return openURL(t.Context(), url) },
		"program's":    func() (driver.Driver, error) { return pglock.New(t.Context(), program) },
		"program's, 2": func() (driver.Driver, error) { return pglock.New(t.Context(), program) },
	} {
		t.Run(name, func(t *testing.T) {
			var all []*driver.Opened
			for range 1 + connections {
				d := errtest.Must(open())(t)
				defer d.Close()
				all = append(all, session(t, d))
			}
			holds, joins := all[0], all[1:]
			held := acquire(t, holds, "held "+name, 1)
			unlock := stick(t, server, holds)
			const calls = 5
			done := make(chan error, calls*connections)
			for range calls {
				for _, s := range joins {
					go func() { _, err := s.Join(t.Context(), request("stuck", calls*connections)); done <- err }()
				}
			}
			noError(t, pgtest.Until(func() (bool, error) { return len(server.Backends("wait_event_type = 'Lock'")) == connections, nil }))
			for range 3 {
				got, err := holds.Renew(t.Context(), []driver.Ticket{held})
				if err != nil || len(got) != 1 || got[0].State != driver.Kept {
					t.Fatalf("Renew: %v, %v", got, err)
				}
			}
			if len(done) > 0 {
				t.Fatalf("a call got on: %v", <-done)
			}
			unlock()
			for range cap(done) {
				errtest.Is(t, <-done, nil)
			}
			for _, s := range joins {
				errtest.Is(t, s.Close(t.Context()), nil)
			}
		})
	}
	// What was opened for heartbeats is closed with its last user.
	program.Close()
	if err := pgtest.Until(func() (bool, error) {
		return len(server.Backends("state IS NOT NULL AND pid <> pg_backend_pid()")) == 0, nil
	}); err != nil {
		t.Error(err)
	}
}

// Promise: a heartbeat keeps the connection that it uses, also over a way that takes longer than it
// waits for a connection. The pool asks the server about one that has rested for a second.
func TestAHeartbeatOverALongWayKeepsItsConnection(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, server.Addr)
	url := strings.Replace(server.URL(), server.Addr, proxy.Addr, 1)
	program := errtest.Must(pgxpool.New(t.Context(), url))(t)
	t.Cleanup(program.Close)
	for name, open := range map[string]func() (driver.Driver, error){
		"own pool":  func() (driver.Driver, error) { return openURL(t.Context(), url) },
		"program's": func() (driver.Driver, error) { return pglock.New(t.Context(), program) },
	} {
		t.Run(name, func(t *testing.T) {
			d := errtest.Must(open())(t)
			defer d.Close()
			s := session(t, d)
			held := acquire(t, s, "held "+name, 1)
			mine := fmt.Sprintf("(application_name = 'interlock') = %t", name == "own pool") // the other may be on its way out
			before := server.Backends(mine)
			for range 2 {
				time.Sleep(1100 * time.Millisecond) // it rests
				sent := proxy.ToServer().Bytes
				proxy.Late()
				renewed := make(chan error, 1)
				go func() { _, err := s.Renew(t.Context(), []driver.Ticket{held}); renewed <- err }()
				noError(t, pgtest.Until(func() (bool, error) { return proxy.ToServer().Bytes > sent, nil }))
				time.Sleep(100 * time.Millisecond) // the way back
				proxy.Resume()
				noError(t, <-renewed)
			}
			after := server.Backends(mine)
			for _, pid := range before {
				if !slices.Contains(after, pid) {
					t.Errorf("the connections before two heartbeats: %v, after them: %v", before, after)
				}
			}
			errtest.Is(t, s.Close(t.Context()), nil)
		})
	}
}

// stick makes the queues "stuck" and "stuck too", and has all that is done to them wait until
// unlock.
func stick(t *testing.T, server *pgtest.Server, s *driver.Opened) (unlock func()) {
	t.Helper()
	for _, queue := range []string{"stuck", "stuck too"} {
		noError(t, s.Leave(t.Context(), acquire(t, s, queue, 1), true))
	}
	return lockRows(t, server)
}

// lockRows is what stick does with queues that are there.
func lockRows(t *testing.T, server *pgtest.Server) (unlock func()) {
	t.Helper()
	raw := errtest.Must(pgx.Connect(t.Context(), server.URL()))(t)
	t.Cleanup(func() { _ = raw.Close(context.Background()) })
	errtest.Must(raw.Exec(t.Context(), "BEGIN; SELECT FROM interlock.queue WHERE name LIKE 'stuck%' FOR UPDATE"))(t)
	return func() {
		if _, err := raw.Exec(context.Background(), "COMMIT"); err != nil {
			t.Error(err)
		}
	}
}

// Promise: calls of those who come to wait leave a connection of the pool to whoever releases,
// gives up waiting, or ends a session, however many they are, and clients of one process.
func TestJoinsLeaveAConnectionToReleases(t *testing.T) {
	t.Parallel()
	const calls = 50
	server := pgtest.Start(t)
	d := opened(t, server.URL())
	holds, ends := session(t, d), session(t, d)
	joins := []*driver.Opened{session(t, d), session(t, opened(t, server.URL()))} // over the same pool
	held, kept := acquire(t, holds, "held", 1), acquire(t, holds, "kept", 1)
	acquire(t, ends, "ends", 1)
	waits := join(t, ends, request("kept", 1))
	unlock := stick(t, server, holds)
	done := make(chan error, calls)
	for i := range calls {
		queue := []string{"stuck", "stuck too"}[i/2%2]
		go func() { _, err := joins[i%2].Join(t.Context(), request(queue, calls)); done <- err }()
	}
	noError(t, pgtest.Until(func() (bool, error) { return len(server.Backends("wait_event_type = 'Lock'")) > 2, nil }))
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(30*time.Second))
	defer cancel()
	for what, do := range map[string]func() error{
		"a release":            func() error { return holds.Leave(ctx, held, true) },
		"a lease that is kept": func() error { return holds.Keep(ctx, kept, time.Minute) },
		"who waits no more, and a session that ends": func() error {
			return errors.Join(ends.Leave(ctx, waits, true), ends.Close(ctx))
		},
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(done) > 0 {
		t.Errorf("a call got on: %v", <-done)
	}
	noError(t, pgtest.Until(func() (bool, error) { // one that was closed may be on its way out
		return len(server.Backends("application_name = 'interlock' AND NOT "+listen)) <= 4, nil
	}))
	unlock()
	for range calls {
		errtest.Is(t, <-done, nil)
	}
}

// Promise: a heartbeat that finds all connections in use, on a server that has no more, has one
// of them as soon as it is free.
func TestAHeartbeatOnAFullServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Setup("CREATE ROLE few LOGIN; GRANT CREATE ON DATABASE postgres TO few"))
	holds := session(t, opened(t, server.URLOf("few", "")+"&pool_max_conns=1"))
	held := acquire(t, holds, "held", 1)
	unlock := stick(t, server, holds)
	server.SQL("ALTER ROLE few CONNECTION LIMIT 1")
	joined := make(chan error, 1)
	go func() { _, err := holds.Join(t.Context(), request("stuck", 1)); joined <- err }()
	busy.Until(t, "the only connection is in use", func() bool { return len(server.Backends("wait_event_type = 'Lock'")) == 1 })
	renewed := make(chan error, 1)
	go func() { _, err := holds.Renew(t.Context(), []driver.Ticket{held}); renewed <- err }()
	busy.Until(t, "the server refuses another one", func() bool { return strings.Contains(server.Log(), "too many connections for role") })
	unlock()
	errtest.Is(t, errors.Join(<-joined, <-renewed), nil)
}

// Promise: clients of a process with one URL share one pool, which the last of them
// closes; those with another URL have another one.
func TestClientsOfAProcessShareOnePool(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.URL() + "&application_name=one&pool_max_conns=2"
	var all []driver.Driver
	for i := range 20 {
		d := opened(t, url)
		s := session(t, d)
		noError(t, s.Leave(t.Context(), acquire(t, s, fmt.Sprint(i), 1), true))
		all = append(all, d)
	}
	other := session(t, opened(t, server.URL()+"&application_name=other"))
	// Who holds for long, on a slow machine, has a connection for news as well.
	if n := len(server.Backends("application_name = 'one' AND NOT " + listen)); n < 1 || n > 2 {
		t.Errorf("%d connections", n)
	}
	if n := len(server.Backends("application_name = 'other'")); n != 1 {
		t.Errorf("%d connections of another URL", n)
	}
	last := session(t, all[0])
	for _, d := range all[1:] {
		noError(t, d.Close())
		errtest.Is(t, d.Close(), nil, "Close, again") // it gives up its share of the pool once
	}
	acquire(t, last, "last", 1)
	noError(t, all[0].Close())
	errtest.Is(t, pgtest.Until(func() (bool, error) { return len(server.Backends("application_name = 'one'")) == 0, nil }), nil)
	acquire(t, other, "other", 1)
	again := session(t, opened(t, url))
	acquire(t, again, "again", 1)
}
