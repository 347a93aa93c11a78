package mysqllock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: a ticket that gets an end of its own while a renewal is under way, since it is
// evicted or another renewal does not name it, has no earlier end than that renewal
// promises.
func TestOwnEndWhileARenewalIsUnderWay(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	for name, end := range map[string]func(driver.Driver, *driver.Opened, driver.Ticket) error{
		"evicted": func(d driver.Driver, _ *driver.Opened, held driver.Ticket) error {
			return d.Ask(context.Background(), held.Queue, held.ID, driver.Evict)
		},
		"not named": func(_ driver.Driver, one *driver.Opened, _ driver.Ticket) error {
			_, err := one.Renew(context.Background(), nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, one := session(t, s.URL())
			_, other := session(t, s.URL())
			r, behind := mutex(name, 1), mutex(name, 2)
			if name == "evicted" {
				r.ID, behind.ID = newID(3), newID(4)
			}
			held, err := one.Join(t.Context(), r)
			if err == nil {
				_, err = other.Join(t.Context(), behind) // so that the first has a row of its own
			}
			if err != nil || !held.Held {
				t.Fatal(held, err)
			}
			// As if it had been renewed half a TTL ago.
			s.Do("UPDATE interlock_sessions SET ends = ends - ttl DIV 2; UPDATE interlock_tickets SET since = 0")
			unlock := uncommitted(t, s, "UPDATE interlock_tickets SET since = since WHERE id = UNHEX(?)", held.ID)
			ended := make(chan error, 1)
			go func() { ended <- end(d, one, held) }()
			waitsForRow(t, s) // it has read the end of the session
			type renewal struct {
				answer []driver.Renewed
				err    error
			}
			renewed := make(chan renewal, 1)
			go func() {
				answer, err := one.Renew(context.Background(), []driver.Ticket{held})
				renewed <- renewal{answer, err}
			}()
			until(t, "the renewal is done, or waits", func() bool {
				return len(renewed) > 0 || s.Status(`innodb\_row\_lock\_current\_waits`) == 2
			})
			unlock()
			noError(t, <-ended)
			got := <-renewed
			if got.err != nil {
				t.Fatal(got.err)
			}
			for _, a := range got.answer {
				if a.State != driver.Kept {
					continue
				}
				left := s.Do("SELECT CAST(COALESCE(t.ends, s.ends) AS SIGNED) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM interlock_tickets t JOIN interlock_sessions s ON s.id = t.session WHERE t.id = UNHEX('" + held.ID + "')")
				ends := driver.Now().Add(time.Duration(number(t, left)) * time.Microsecond)
				if promised := a.Proof.Add(one.TTL); ends < promised {
					t.Errorf("it ends %v before the time that was promised", promised.Sub(ends))
				}
			}
		})
	}
}

// Promise: a heartbeat proves what it names though the queue of a ticket that it does not
// name, or of one that is a stray still, is locked by somebody else.
func TestHeartbeatBesideALockedQueue(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	_, one := idle(t, s, 4, 24*time.Second)
	var all []driver.Ticket
	for n, queue := range []string{"a", "b", "c", "stray", "named again"} {
		k, err := one.Join(t.Context(), mutex(queue, n+1))
		if err != nil || !k.Held {
			t.Fatal(k, err)
		}
		all = append(all, k)
	}
	held, stray := all[:3], all[3]
	errtest.Must(one.Renew(t.Context(), all[:4]))(t) // the last is a stray
	unlock := locked(t, s, stray.Queue)
	unlockToo := locked(t, s, "named again")
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), one.TTL/3) // as a client does
		began := driver.Now()
		got, err := one.Renew(ctx, append(held[:3:3], all[4]))
		cancel()
		noError(t, err)
		kept := 0
		for _, r := range got {
			if r.State == driver.Kept && r.ID != all[4].ID && r.Proof >= began {
				kept++
			}
		}
		if kept != len(held) {
			t.Fatalf("%d of %d are kept: %+v", kept, len(held), got)
		}
	}
	unlock()
	unlockToo()
	until(t, "the stray gets no end", func() bool {
		return s.Do("SELECT COUNT(*) FROM interlock_tickets WHERE id = UNHEX('"+stray.ID+"') AND flags & 16 AND ends IS NOT NULL") == "1"
	})
	until(t, "the ticket that is named again is not kept", func() bool {
		got := errtest.Must(one.Renew(t.Context(), append(held[:3:3], all[4])))(t)
		for _, r := range got {
			if r.ID == all[4].ID && r.State == driver.Kept {
				return true
			}
		}
		return false
	})
}
