package mysqllock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
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
			busy.Until(t, "the renewal is done, or waits", func() bool {
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
