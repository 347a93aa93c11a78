package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

const waitsForStandby = "wait_event = 'SyncRep'"

// synchronous starts a primary whose commits wait for a standby.
func synchronous(t *testing.T) (s, standby *pgtest.Server) {
	t.Helper()
	s = pgtest.Start(t, pgtest.Setup("CREATE ROLE deaf LOGIN SUPERUSER; ALTER ROLE deaf SET client_min_messages = error"))
	standby = pgtest.StartStandby(t, s)
	s.SQL("ALTER SYSTEM SET synchronous_standby_names = '*'")
	s.SQL("SELECT pg_reload_conf()")
	busy.Until(t, "commits wait for the standby", func() bool {
		return s.SQL("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
	})
	return s, standby
}

// cancelWaits cancels waits for the standby, one after the other, until there were so
// many. The call whose they are must not be answered meanwhile.
func cancelWaits(t *testing.T, s *pgtest.Server, n int, answer <-chan error) {
	t.Helper()
	seen := ""
	for range n {
		var now string
		busy.Until(t, "a commit waits for the standby again", func() bool {
			select {
			case err := <-answer:
				t.Fatalf("it is answered though the standby has not received it: %v", err)
			default:
			}
			now = s.SQL("SELECT pid || ' ' || xact_start FROM pg_stat_activity WHERE " + waitsForStandby + " ORDER BY xact_start DESC LIMIT 1")
			return now != "" && now != seen
		})
		seen = now
		pid, _, _ := strings.Cut(now, " ")
		if s.SQL("SELECT pg_cancel_backend("+pid+")") != "t" {
			t.Fatal("it cannot be cancelled")
		}
	}
}

// answered waits for the answer of a call.
func answered(t *testing.T, answer <-chan error) error {
	t.Helper()
	select {
	case err := <-answer:
		return err
	case <-time.After(busy.Bound(2 * time.Minute)):
		t.Fatal("it is not answered")
		return nil
	}
}

// Promise: a call is not answered before a synchronous standby has received what it did,
// though the wait of its commit for the standby is cancelled, again and again; then it is.
func TestCancelledWaitsForAStandby(t *testing.T) {
	t.Parallel()
	type world struct {
		d      driver.Driver
		a      *driver.Opened
		held   driver.Ticket // of q
		fixed  driver.Ticket // of fixed, for an hour
		queued driver.Ticket // of fixed, too
	}
	ctx := t.Context()
	hold := func(queue string) driver.Request {
		r := request(queue, 1)
		r.Hold = time.Hour
		return r
	}
	swap := driver.Swap{ID: newID(), Name: "x/value", Value: []byte("x")}
	calls := map[string]func(*world) error{
		"Open":   func(w *world) error { _, err := w.d.Open(ctx, driver.SessionOptions{TTL: ttl}); return err },
		"Join":   func(w *world) error { _, err := w.a.Join(ctx, request("new", 1)); return err },
		"Leave":  func(w *world) error { return w.a.Leave(ctx, w.held, true) },
		"Shrink": func(w *world) error { return w.a.Shrink(ctx, w.held, 1) },
		"Renew":  func(w *world) error { _, err := w.a.Renew(ctx, []driver.Ticket{w.held}); return err },
		"Evict":  func(w *world) error { return w.d.Ask(ctx, "q", w.held.ID, driver.Evict) },
		"Close":  func(w *world) error { return w.a.Close(ctx) },
	}
	lasting := map[string]func(*world) error{
		"Keep":            func(w *world) error { return w.a.Keep(ctx, w.held, time.Hour) },
		"Raise":           func(w *world) error { return w.d.Raise(ctx, "q", 1<<50) },
		"Swap":            func(w *world) error { _, err := w.d.Swap(ctx, swap); return err },
		"Join for a time": func(w *world) error { _, err := w.a.Join(ctx, hold("new")); return err },
		"Await for a time": func(w *world) error {
			go func() { _ = w.a.Leave(ctx, w.fixed, true) }()
			_, err := w.a.Await(ctx, w.queued)
			return err
		},
	}
	run := func(t *testing.T, url string, calls map[string]func(*world) error) {
		s, standby := synchronous(t)
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				w := &world{d: opened(t, s.URL()+url)}
				w.a = session(t, w.d)
				r := request("q", 2)
				r.Units = 2
				w.held = join(t, w.a, r)
				w.fixed = join(t, w.a, hold("fixed"))
				w.queued = join(t, w.a, hold("fixed"))
				standby.StopReceiving()
				t.Cleanup(func() { _ = w.a.Close(context.Background()) })
				received := false
				defer func() {
					if !received {
						standby.Receive()
					}
				}()
				answer := make(chan error, 1)
				go func() { answer <- call(w) }()
				cancelWaits(t, s, 4, answer)
				standby.Receive()
				received = true
				errtest.Is(t, answered(t, answer), nil)
				for _, k := range []driver.Ticket{w.held, w.fixed, w.queued} { // the next one needs the queues
					_ = w.d.Ask(ctx, k.Queue, k.ID, driver.Force)
				}
			})
		}
	}
	t.Run("logged", func(t *testing.T) { t.Parallel(); run(t, "&durability=logged", calls) })
	t.Run("logged and lasting", func(t *testing.T) { t.Parallel(); run(t, "&durability=logged", lasting) })
	t.Run("unlogged and lasting", func(t *testing.T) { t.Parallel(); run(t, "", lasting) })
}

// Promise: a Join whose wait for the standby is cancelled is no grant: after the standby
// has taken over there are no two who hold. Nor is it if it is asked again, over another
// connection; nor with the program's own pool.
func TestNoTwoHoldersAfterACancelledWait(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, url string) driver.Driver{
		"by URL": func(t *testing.T, url string) driver.Driver { return opened(t, url+"&durability=logged") },
		"where the role hears no warnings": func(t *testing.T, url string) driver.Driver {
			return opened(t, strings.Replace(url, "postgres@", "deaf@", 1)+"&durability=logged")
		},
		"by New": func(t *testing.T, url string) driver.Driver {
			pool := errtest.Must(pgxpool.New(t.Context(), url))(t)
			t.Cleanup(pool.Close)
			d := errtest.Must(pglock.New(t.Context(), pool, pglock.In(pglock.Schema{Logged: true})))(t)
			t.Cleanup(func() { _ = d.Close() })
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, standby := synchronous(t)
			a := session(t, open(t, s.URL()))
			first := request("q", 1)
			warm := join(t, a, request("warm", 1))
			noError(t, a.Leave(t.Context(), warm, true))
			standby.StopReceiving()
			ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
			defer cancel()
			answer := make(chan error, 1)
			try := func() {
				k, err := a.Join(ctx, first)
				if err == nil && !k.Held {
					err = errors.New("it waits")
				}
				answer <- err
			}
			go try()
			cancelWaits(t, s, 2, answer)
			busy.Until(t, "it waits for the standby again", func() bool { return s.Terminate(waitsForStandby) > 0 })
			if err := answered(t, answer); err == nil {
				t.Fatal("a Join whose connection was ended while it waited for the standby is a grant")
			}
			first.Retry = true
			go try()
			cancelWaits(t, s, 3, answer)
			s.Kill()
			if err := answered(t, answer); err == nil {
				t.Fatal("a Join that the standby has not received is a grant")
			}
			standby.Promote()
			other := session(t, opened(t, standby.URL()))
			if k := join(t, other, request("q", 1)); !k.Held {
				t.Errorf("the standby had received the grant: the test shows nothing")
			}
		})
	}
}

// Promise: a call that is repeated, since its connection was ended while its commit waited
// for a standby, is not answered before the standby has received what the first one did.
func TestRepeatedCallsWaitForAStandby(t *testing.T) {
	t.Parallel()
	s, standby := synchronous(t)
	timed := request("timed", 1)
	timed.Hold = time.Hour
	swap := driver.Swap{ID: newID(), Name: "x/value", Value: []byte("x")}
	for name, c := range map[string]struct {
		url  string
		call func(context.Context, driver.Driver, *driver.Opened) error
	}{
		"Join, logged": {"&schema=logged&durability=logged", func(ctx context.Context, _ driver.Driver, a *driver.Opened) error {
			r := request("q", 1)
			r.ID, r.Retry = strings.Repeat("a", 32), true
			_, err := a.Join(ctx, r)
			return err
		}},
		"Join for a time": {"", func(ctx context.Context, _ driver.Driver, a *driver.Opened) error {
			_, err := a.Join(ctx, timed)
			return err
		}},
		"Swap": {"", func(ctx context.Context, d driver.Driver, _ *driver.Opened) error {
			_, err := d.Swap(ctx, swap)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := opened(t, s.URL()+c.url)
			a := session(t, d)
			standby.StopReceiving()
			answer := make(chan error, 1)
			try := func() { answer <- c.call(t.Context(), d, a) }
			go try()
			waiting(t, s, waitsForStandby, 1)
			s.Terminate(waitsForStandby)
			if err := answered(t, answer); err == nil {
				t.Error("a call whose connection was ended while it waited for the standby is answered")
			}
			timed.Retry = true
			go try()
			cancelWaits(t, s, 2, answer)
			standby.Receive()
			errtest.Is(t, answered(t, answer), nil)
		})
	}
}
