package redislock_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: a Join that arrives late, after its repetition was granted and has left, gets no
// ticket: nobody would give it back.
func TestALateJoinGetsNoTicketOnceItsRepetitionHasLeft(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	db, b := session(t, s.URL(), time.Hour)
	_, warmed := session(t, "redis://"+p.Addr, time.Hour)
	warm(t, warmed)
	requests := map[string]func(queue string) driver.Request{
		"mutex": exclusive, // takes the short way first
		"permits": func(queue string) driver.Request {
			r := request(queue, 2, 3)
			r.Kind = driver.Semaphore
			return r
		},
	}
	ends := map[string]func(a *driver.Opened, tk driver.Ticket) error{
		"Leave": func(a *driver.Opened, tk driver.Ticket) error { return a.Leave(t.Context(), tk, true) },
		"Close": func(a *driver.Opened, tk driver.Ticket) error { return a.Close(t.Context()) },
	}
	for kind, request := range requests {
		for end, leave := range ends {
			_, a := session(t, "redis://"+p.Addr, time.Hour)
			queue := kind + "/" + end
			r := request(queue)
			arrive := p.DelayRequest("EVALSHA")
			if tk, err := a.Join(t.Context(), r); err == nil {
				t.Fatalf("%s: the Join was not delayed: %+v", queue, tk)
			}
			r.Retry = true
			tk, err := a.Join(t.Context(), r)
			if err != nil || !tk.Held {
				t.Fatalf("%s: the Join that is repeated: %+v, %v", queue, tk, err)
			}
			if err := leave(a, tk); err != nil {
				t.Fatalf("%s: %v", queue, err)
			}
			answer, err := arrive()
			if err != nil {
				t.Fatalf("%s: the late Join: %v", queue, err)
			}
			if q, err := db.Follow(t.Context(), queue, ""); err != nil || len(q.Members) > 0 {
				t.Errorf("%s: the late Join was answered %v; the queue is %+v, %v", queue, answer, q.Members, err)
			}
			other := request(queue)
			other.NoWait = true
			if tk, err := b.Join(t.Context(), other); err != nil || !tk.Held {
				t.Errorf("%s: after the late Join another gets %+v, %v", queue, tk, err)
			}
		}
	}
}

// Promise: a ticket that is found again by its Join is extended, and so it is by the renewals
// that follow: what its holder believes in, the server keeps.
func TestATicketThatIsFoundAgainIsExtended(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	p := redistest.NewProxy(t, s.Addr)
	const ttl = time.Minute
	_, a := session(t, "redis://"+p.Addr, ttl)
	_, b := session(t, s.URL(), time.Hour)
	warm(t, a)
	for name, r := range map[string]driver.Request{
		"mutex":  exclusive("mutex"), // its ticket is lone
		"reader": request("reader", 1, driver.RWCapacity),
	} {
		p.LoseReplies(1, redistest.Command("EVALSHA"))
		if _, err := a.Join(t.Context(), r); err == nil {
			t.Fatal("the reply was not lost")
		}
		s.StepClock(ttl * 2 / 3)
		r.Retry = true
		tk, err := a.Join(t.Context(), r)
		if err != nil || !tk.Held {
			t.Fatalf("%s: the Join that is repeated: %+v, %v", name, tk, err)
		}
		stands := func(after string) {
			t.Helper()
			s.StepClock(ttl * 2 / 3)
			other := request(name, r.Capacity, r.Capacity)
			other.NoWait = true
			if got, err := b.Join(t.Context(), other); !errors.Is(err, driver.ErrBusy) {
				t.Fatalf("%s: two thirds of the TTL after %s another gets %+v, %v", name, after, got, err)
			}
		}
		stands("the Join that was repeated")
		renew(t, a, tk)
		stands("a renewal")
	}
}

// Promise: whoever knows the ID of another session's ticket cannot take it over by a Join.
func TestAJoinDoesNotTakeOverAnothersTicket(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), time.Hour)
	_, b := session(t, s.URL(), time.Hour)
	for name, r := range map[string]driver.Request{
		"alone":  exclusive("alone"),
		"reader": request("reader", 1, driver.RWCapacity),
	} {
		joined(t, a, r, true)
		r.Retry = true
		if tk, err := b.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: Join of another session's ticket: %+v, %v", name, tk, err)
		}
	}
}

// Promise: a ticket that a heartbeat has granted, since the holder has died, is known to be
// held at once, though the news are lost.
func TestAHeartbeatTellsOfItsOwnGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	p := redistest.NewProxy(t, s.Addr)
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, "redis://"+p.Addr, time.Hour)
	p.DropPushes(true)
	x := &demand{t: t}
	x.join(a, exclusive("q"))
	waits := x.join(b, exclusive("q"))
	s.StepClock(2 * time.Minute)
	renew(t, b, waits)
	if _, err := b.Await(x.soon(), waits); err != nil {
		t.Errorf("Await: %v", err)
	}
}

// Promise: a holder is told of its eviction with the next heartbeat, though the news are lost.
func TestAHeartbeatTellsOfAnEviction(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	_, a := session(t, "redis://"+p.Addr, time.Hour)
	db, _ := session(t, s.URL(), time.Hour)
	p.DropPushes(true)
	for _, named := range []bool{true, false} {
		held := joined(t, a, exclusive("q"), true)
		noError(t, db.Ask(t.Context(), "q", held.ID, driver.Evict))
		var known []driver.Ticket
		if named {
			known = append(known, held)
		}
		errtest.Must(a.Renew(t.Context(), known))(t)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if sig, err := a.Signals(ctx); err != nil || sig.Demand != driver.Evict || sig.ID != held.ID {
			t.Fatalf("the signal after a renewal that names it (%v): %+v, %v", named, sig, err)
		}
		noError(t, a.Leave(t.Context(), held, true))
	}
}

// closing is a context that has something happen when its error is asked for the n-th time.
type closing struct {
	context.Context
	n      atomic.Int32
	happen func()
}

func (c *closing) Err() error {
	if c.n.Add(-1) == 0 {
		c.happen()
	}
	return c.Context.Err()
}

// Promise: a Join that finds its session open and is overtaken by its end leaves no ticket.
func TestAJoinThatIsOvertakenByTheEndOfItsSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for n := range int32(2) { // before the session is looked at, and after
		d, a := session(t, s.URL(), time.Hour)
		ctx := &closing{Context: t.Context(), happen: func() {
			errtest.Is(t, a.Close(t.Context()), nil)
		}}
		ctx.n.Store(n + 1)
		if tk, err := a.Join(ctx, exclusive("q")); !errors.Is(err, driver.ErrSession) {
			t.Errorf("Join of a session that was closed meanwhile: %+v, %v", tk, err)
		}
		if ctx.n.Load() > 0 {
			t.Error("the session was not closed")
		}
		if q, err := d.Follow(t.Context(), "q", ""); err != nil || len(q.Members) > 0 {
			t.Errorf("after the Join that was overtaken the queue is %+v, %v", q.Members, err)
		}
	}
}

// Promise: a Join that never had an answer costs nothing once its ticket must be over.
func TestLostJoinsAreForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	const ttl = 300 * time.Millisecond
	_, a := session(t, "redis://"+p.Addr, ttl)
	warm(t, a)
	p.Hang()
	var wg sync.WaitGroup
	const n = 200
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _ = a.Join(ctx, exclusive("q"+strconv.Itoa(i)))
		})
	}
	wg.Wait()
	p.Resume()
	busy.Until(t, "a heartbeat sends a few requests, once all tickets have gone", func() bool {
		time.Sleep(ttl / 3)
		before := p.ToServer().Frames
		_, err := a.Renew(t.Context(), nil)
		return err == nil && p.ToServer().Frames-before <= 10
	})
}

// Promise: a ticket that was kept outlives its session, though the reply to Keep was lost.
func TestAKeptTicketOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	_, a := session(t, "redis://"+p.Addr, time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	w, _ := b.Join(t.Context(), exclusive("w"))
	_ = b.Keep(t.Context(), w, time.Millisecond)
	tk := errtest.Must(a.Join(t.Context(), exclusive("q")))(t)
	p.LoseReplies(1, redistest.Command("EVALSHA"))
	if err := a.Keep(t.Context(), tk, 5*time.Minute); err == nil {
		t.Fatal("the reply was not lost")
	}
	db, _ := session(t, s.URL(), time.Second)
	if q, err := db.Follow(t.Context(), "q", ""); err != nil || len(q.Members) != 1 || !q.Members[0].Fixed {
		t.Fatalf("Keep took no effect: %+v %v", q, err)
	}
	noError(t, a.Close(t.Context()))
	next, err := b.Join(t.Context(), exclusive("q"))
	if err != nil || next.Held {
		t.Errorf("a ticket with a fixed end left with its session: %+v %v", next, err)
	}
}
