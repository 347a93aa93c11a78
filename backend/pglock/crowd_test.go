package pglock_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: of those who come to a line and of those who give up, whatever their client, one at
// a time stands before a holder who releases.
func TestAReleaseDoesNotQueueBehindACrowd(t *testing.T) {
	t.Parallel()
	const clients, waiters = 4, 3
	s := pgtest.Start(t)
	holder := session(t, opened(t, s.URL()+"&application_name=holder"))
	held := acquire(t, holder, "stuck", 1)
	type waiter struct {
		driver.Session
		stands driver.Ticket
	}
	var crowd []waiter
	for i := range clients {
		in := session(t, opened(t, s.URL()+fmt.Sprint("&application_name=crowd", i)))
		crowd = append(crowd, waiter{in, join(t, in, request("stuck", 1))})
	}
	unlock := lockRows(t, s)
	var all sync.WaitGroup
	call := func(do func() error) {
		all.Go(func() {
			errtest.Is(t, do(), nil)
		})
	}
	for _, w := range crowd {
		call(func() error { return w.Leave(t.Context(), w.stands, true) })
		for range waiters - 1 {
			call(func() error { _, err := w.Join(t.Context(), request("stuck", 1)); return err })
		}
	}
	waiting := func(where string) int { return len(s.Backends("wait_event_type = 'Lock' AND " + where)) }
	busy.Until(t, "the crowd waits", func() bool { return waiting("true") == clients*waiters })
	if n := waiting("wait_event <> 'advisory'"); n != 2 {
		t.Errorf("%d of %d wait for the row, want one who joins and one who leaves", n, clients*waiters)
	}
	call(func() error { return holder.Leave(t.Context(), held, true) })
	busy.Until(t, "the release waits for the row", func() bool { return waiting("application_name = 'holder' AND wait_event <> 'advisory'") == 1 })
	unlock()
	all.Wait()
}
