package zklock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: what somebody else writes into the node of a queue while we hold a lock there
// stays, unless the lock was handed on a moment ago.
func TestForeignDataThatComeWhileALockIsHeld(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	a, b := session(t, opened(t, s.Addr), 20*time.Second), session(t, opened(t, s.Addr), 20*time.Second)
	n := 0
	for what, take := range map[string]func(q string) (*driver.Opened, driver.Ticket){
		"free": func(q string) (*driver.Opened, driver.Ticket) { return a, holds(t, a, aMutex(q)) },
		"free, and others wait": func(q string) (*driver.Opened, driver.Ticket) {
			k := holds(t, a, aMutex(q))
			join(t, b, aMutex(q))
			return a, k
		},
		"handed on, and held for some time": func(q string) (*driver.Opened, driver.Ticket) {
			h := holds(t, b, aMutex(q))
			k := join(t, a, aMutex(q))
			noError(t, b.Leave(limited(t), h, true))
			k, err := a.Await(limited(t), k)
			noError(t, err)
			join(t, b, aMutex(q))
			for { // its session has looked who waits
				g := errtest.Must(a.Signals(limited(t)))(t)
				if g.Demand == driver.Wanted && g.ID == k.ID {
					break
				}
			}
			return a, k
		},
		"kept for a time, and left by somebody else": func(q string) (*driver.Opened, driver.Ticket) {
			k := holds(t, a, aMutex(q))
			noError(t, a.Keep(limited(t), k, time.Hour))
			return b, k
		},
	} {
		n++
		q := fmt.Sprint("q", n)
		warm(t, a, q)
		who, k := take(q)
		_, err := raw.Set("/a/"+q, []byte("theirs"), -1)
		noError(t, err)
		noError(t, who.Leave(limited(t), k, true))
		if data, _, err := raw.Get("/a/" + q); err != nil || string(data) != "theirs" {
			t.Errorf("%s: the node of the queue has %q: %v", what, data, err)
		}
		if left := nodes(t, raw, "/a/"+q); len(left) > 1 {
			t.Errorf("%s: the ticket has not left: %q", what, left)
		}
	}
}
