package sqlitelock

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// What each call costs is known: an uncontended lock is two transactions, and a heartbeat is one
// for up to two hundred tickets.
func TestExchangesOfEachCall(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	costs := func(what string, want uint64, call func() error) {
		t.Helper()
		before := d.quiet()
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if used := d.quiet() - before; used != want {
			t.Errorf("%s takes %d exchanges, not %d", what, used, want)
		}
	}
	var all []driver.Ticket
	join := func(r driver.Request) func() error {
		return func() error {
			tk, err := s.Join(t.Context(), r)
			all = append(all, tk)
			return err
		}
	}
	semaphore := driver.Request{ID: exchange.NewID(), Queue: "s", Kind: driver.Semaphore, Units: 3, Capacity: 3}
	costs("Join", 1, join(mutex("q")))
	costs("Leave", 1, func() error { return s.Leave(t.Context(), all[0], true) })
	costs("Join of a semaphore", 1, join(semaphore))
	costs("Shrink", 1, func() error { return s.Shrink(t.Context(), all[1], 1) })
	for range 50 {
		all = append(all, s.mustJoin(t, mutex("many"), len(all) == 2))
	}
	costs("Join of a waiter", 1, join(mutex("many")))
	costs("Renew", 1, func() error { _, err := s.Renew(t.Context(), all[1:]); return err })
	costs("Leave of a waiter", 1, func() error { return s.Leave(t.Context(), all[10], true) })
	costs("Leave of a holder, with the grant", 1, func() error {
		if err := s.Leave(t.Context(), all[2], true); err != nil {
			return err
		}
		_, err := s.Await(t.Context(), all[3])
		return err
	})
	costs("Keep", 1, func() error { return s.Keep(t.Context(), all[3], time.Hour) })
	costs("Join without waiting", 1, func() error {
		r := mutex("many")
		r.NoWait = true
		if _, err := s.Join(t.Context(), r); !errors.Is(err, driver.ErrBusy) {
			return errors.New("it is not refused")
		}
		return nil
	})
	costs("Ask", 1, func() error { return d.Ask(t.Context(), "many", all[3].ID, driver.Revoke) })
	costs("Load", 1, func() error { _, err := d.Load(t.Context(), "c/value"); return err })
	costs("Swap", 1, func() error {
		_, err := d.Swap(t.Context(), driver.Swap{ID: exchange.NewID(), Name: "c/value"})
		return err
	})
	costs("Raise", 1, func() error { return d.Raise(t.Context(), "", 1) })
}
