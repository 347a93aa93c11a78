// Package tabletest checks what backends promise whose locks are rows of a SQL server, beyond the rules of drivertest:
// what an administrator, another program or a full server does to the tables harms nothing for long.
package tabletest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

func mutex(queue string) driver.Request {
	return driver.Request{ID: exchange.NewID(), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	t.Cleanup(cancel)
	return ctx
}

// DeletedTickets demands that a name is not dead when the rows of all its tickets, of the holder or of the waiter were
// deleted: the next one who asks gets it.
func DeletedTickets(t *testing.T, open func() *driver.Opened, remove func(queue, which string)) {
	t.Helper()
	ctx := within(t)
	for _, which := range []string{"all", "holder", "waiter"} {
		for _, noWait := range []bool{true, false} {
			a, b, next := open(), open(), open()
			held := errtest.Must(a.Join(ctx, mutex(which)))(t)
			waiting := errtest.Must(b.Join(ctx, mutex(which)))(t)
			remove(which, which)
			r := mutex(which)
			r.NoWait = true
			switch which {
			case "waiter":
				errtest.None(t, a.Leave(ctx, held, true))
			case "holder":
				_, err := next.Join(ctx, r) // it finds that the holder is not there
				errtest.MustBe(t, err, driver.ErrBusy)
				errtest.None(t, b.Leave(ctx, errtest.Must(b.Await(ctx, waiting))(t), true))
			}
			r = mutex(which)
			r.NoWait = noWait
			got := errtest.Must(next.Await(ctx, errtest.Must(next.Join(ctx, r))(t)))(t)
			errtest.None(t, next.Leave(ctx, got, true))
		}
	}
}

// DroppedTables demands that a program that runs makes the tables again when they are not there any more, as its start
// would: a server that came back empty is used again. What was held is over, and it is told.
func DroppedTables(t *testing.T, d driver.Driver, drop func()) {
	t.Helper()
	ctx := within(t)
	o := driver.SessionOptions{TTL: time.Minute}
	old := errtest.Must(d.Open(ctx, o))(t)
	k := errtest.Must(old.Join(ctx, mutex("q")))(t)
	drop()
	for err := error(nil); !errors.Is(err, driver.ErrSession); time.Sleep(10 * time.Millisecond) {
		// A connection of before may have no database any more.
		if _, err = old.Renew(ctx, []driver.Ticket{k}); err == nil || driver.IsPermanent(err) && !errors.Is(err, driver.ErrSession) || ctx.Err() != nil {
			t.Fatalf("Renew of what the tables had: %v", err)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				s, err := d.Open(ctx, o)
				if err == nil {
					_ = s.Close(ctx)
					return
				}
				if driver.IsPermanent(err) || ctx.Err() != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	fresh := errtest.Must(d.Open(ctx, o))(t)
	if again := errtest.Must(fresh.Await(ctx, errtest.Must(fresh.Join(ctx, mutex("q")))(t)))(t); again.Token <= k.Token {
		t.Errorf("the token %d follows %d", again.Token, k.Token)
	}
	errtest.Is(t, fresh.Close(ctx), nil)
}

// Tidying demands that what was left and what was swapped is remembered for long enough, beside a client that tidies
// up. later has the swap be a minute old, and the queue unused for hours, and tidies.
func Tidying(t *testing.T, d driver.Driver, a *driver.Opened, later func()) {
	t.Helper()
	ctx, late := within(t), mutex("q")
	errtest.MustBe(t, a.Leave(ctx, driver.Ticket{ID: late.ID, Queue: late.Queue}, true), driver.ErrGone)
	swap := driver.Swap{ID: exchange.NewID(), Name: "x/value", Value: []byte("a")}
	swapped := errtest.Must(d.Swap(ctx, swap))(t)
	later()
	if got, err := a.Join(ctx, late); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a Join that comes after its Leave has got %+v, %v", got, err)
	}
	if again, err := d.Swap(ctx, swap); err != nil || again.Version != swapped.Version {
		t.Errorf("a swap that is repeated returns %+v, %v, and returned %+v", again, err, swapped)
	}
}

// ClockFallsBack demands that tokens grow though the server's clock falls back, whichever way a ticket takes into its
// queue. ahead has the numbers of the queue be larger by so many, as if the clock had been months ahead.
func ClockFallsBack(t *testing.T, a, b *driver.Opened, ahead func(n uint64)) {
	t.Helper()
	ctx, g := within(t), &Tokens{T: t, Queue: "q"}
	for _, how := range []string{"the first", "alone"} {
		k := g.join(ctx, a)
		g.grows(how, k)
		errtest.None(t, a.Leave(ctx, k, true))
		ahead(1 << 40)
		g.Last += 1 << 40
	}
	front := g.join(ctx, a)
	g.grows("before a line", front)
	line := []driver.Ticket{g.join(ctx, b), g.join(ctx, b), g.join(ctx, b)}
	errtest.None(t, a.Leave(ctx, front, true))
	for _, k := range line {
		k = errtest.Must(b.Await(ctx, k))(t)
		g.grows("in a line", k)
		errtest.None(t, b.Leave(ctx, k, true))
	}
	r := mutex("q")
	r.Retry = true
	g.grows("that is looked for first", errtest.Must(a.Join(ctx, r))(t))
}

// LockedQueue demands that a heartbeat proves what it names though the queue of a ticket that it does not name, or of
// one that is a stray still, is locked by another program. The session's TTL is one of some ten seconds. ends tells
// whether a stray has got an end of its own.
func LockedQueue(t *testing.T, s *driver.Opened, lock func(queues ...string) (unlock func()), ends func(id string) bool) {
	t.Helper()
	ctx := within(t)
	var all []driver.Ticket
	for _, queue := range []string{"a", "b", "stray", "named again"} {
		all = append(all, errtest.Must(s.Join(ctx, mutex(queue)))(t))
	}
	held, stray, again := all[:2:2], all[2], all[3]
	errtest.Must(s.Renew(ctx, append(held, stray)))(t) // again is a stray from now on
	known := append(held, again)
	unlock := lock(stray.Queue, again.Queue)
	for range 3 {
		ctx, cancel := context.WithTimeout(ctx, s.TTL/3) // as a client does
		began := driver.Now()
		got, err := s.Renew(ctx, known)
		cancel()
		errtest.None(t, err)
		kept := 0
		for _, r := range got {
			if r.State == driver.Kept && r.ID != again.ID && r.Proof >= began {
				kept++
			}
		}
		if kept != len(held) {
			t.Fatalf("%d of %d are kept: %+v", kept, len(held), got)
		}
	}
	unlock()
	busy.Until(t, "the stray gets an end", func() bool { return ends(stray.ID) })
	busy.Until(t, "the ticket that is named again is kept", func() bool {
		for _, r := range errtest.Must(s.Renew(ctx, known))(t) {
			if r.ID == again.ID && r.State == driver.Kept {
				return true
			}
		}
		return false
	})
}

// News demands that where the server has no more connections, the one for news takes the place of another: a process
// that does not hear of a grant would hold up the whole line. connections counts what the calls of s use, and limit
// allows no more of them.
func News(t *testing.T, s, holder *driver.Opened, most int, connections func() int, limit func(), listens func() bool) {
	t.Helper()
	ctx := within(t)
	held := errtest.Must(holder.Join(ctx, mutex("q")))(t)
	calls, rest := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer rest()
	for n := range 8 { // all connections are in use, and none is given up for being idle
		others.Go(func() {
			for calls.Err() == nil {
				k, err := s.Join(calls, mutex(fmt.Sprint("busy/", n)))
				if err == nil {
					err = s.Leave(calls, k, true)
				}
				if err != nil && calls.Err() == nil {
					t.Errorf("a call: %v", err)
					return
				}
			}
		})
	}
	busy.Until(t, "the calls use several connections", func() bool { return connections() >= most })
	limit()
	waits := errtest.Must(s.Join(ctx, mutex("q")))(t)
	granted := make(chan error, 1)
	go func() { _, err := s.Await(ctx, waits); granted <- err }()
	busy.Until(t, "a connection listens", listens)
	errtest.None(t, holder.Leave(ctx, held, true))
	errtest.None(t, <-granted)
}
