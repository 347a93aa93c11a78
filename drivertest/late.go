package drivertest

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// What the backend guarantees begins before it answers. Whoever counts from a late
// answer believes in the ticket for longer than it stands.
var _ = rules.Add(rule{Name: "LateAnswers", Hook: "Late", Says: []string{
	proofSays,
	"the local time before it was read",
	"from Queue.Read: how long it stands if nothing renews it",
}}, func(t *trial) {
	l := &latecomer{t, t.client(), t.client()}
	l.all("one for all", t.exclusive)
	if !testing.Short() {
		l.all("permits", func(queue string) driver.Request { return permits(queue, 2, 3) })
	}
	if t.fixes() {
		l.fixed()
	}
})

// latecomer makes calls whose answers are late.
type latecomer struct {
	t        *trial
	front, b *client
}

// late makes calls, one after the other, whose answers come after half a TTL. A call
// that fails meanwhile is repeated.
func (l *latecomer) late(c *client, what string, calls ...func() error) {
	t := l.t
	t.Helper()
	done := make(chan error, 1)
	resume := t.world.Late()
	t.Calls.Go(func() {
		for _, call := range calls {
			if err := t.known(call); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	})
	time.Sleep(t.TTL / 2)
	resume()
	if err := <-done; err != nil {
		t.inTime(c.driver, c.opened.Add(c.TTL))
		t.Fatalf("%s, with a late answer: %v", what, err)
	}
}

// until checks that nobody else holds before the end that the answer gave.
func (l *latecomer) until(end driver.Instant, r driver.Request, why string) {
	l.t.Helper()
	next := l.b.behind(another(r))
	next.notBefore(end, why)
	next.stop()
	l.t.Allow(0) // for the next part
}

// mortal is a client whose connections have been made: what waits for one is not sent
// when its answer is to be late.
func (l *latecomer) mortal() *client {
	a := l.t.mortal()
	tk := a.join(l.t.exclusive("before " + newID()))
	a.renew(tk)
	a.leave(tk)
	l.t.snapshot(a.driver, tk.Queue)
	return a
}

func (l *latecomer) join(c *client, r driver.Request) (got driver.Ticket) {
	l.t.Helper()
	l.late(c, "Join", func() (err error) {
		got, err = c.Join(l.t.Ctx, r)
		r.Retry = true
		return err
	})
	return got
}

func (l *latecomer) await(r driver.Request) (c *client, got driver.Ticket) {
	t := l.t
	t.Helper()
	first := l.front.hold(another(r))
	c = l.mortal()
	waiting := c.wait(r)
	granted := make(chan error, 1)
	t.Calls.Go(func() {
		granted <- t.known(func() (err error) { got, err = c.Await(t.Ctx, waiting); return err })
	})
	l.late(c, "Leave and Await", func() error {
		if err := l.front.Leave(t.Ctx, first, true); !errors.Is(err, driver.ErrGone) {
			return err
		}
		return nil
	}, func() error { return <-granted })
	return c, got
}

// renew returns the proof of a late renewal.
func (l *latecomer) renew(c *client, tk driver.Ticket) (proof driver.Instant) {
	l.t.Helper()
	l.late(c, "Renew", func() error {
		answer, err := c.Renew(l.t.Ctx, []driver.Ticket{tk})
		if err != nil {
			return err
		}
		if len(answer) != 1 || answer[0].State != driver.Kept {
			return driver.ErrGone
		}
		proof = answer[0].Proof
		return nil
	})
	return proof
}

// another asks for the same, without a fixed end.
func another(r driver.Request) driver.Request {
	r.ID, r.Hold = newID(), 0
	return r
}

func (l *latecomer) all(about string, request func(queue string) driver.Request) {
	t := l.t
	t.Helper()
	a := l.mortal()
	r := request(about + "/join")
	l.until(a.lease(l.join(a, r)).end(), r, "by the proof of a late Join")

	a = l.mortal()
	r = request(about + "/join again")
	a.hold(r)
	l.until(a.lease(l.join(a, again(r))).end(), r, "by the proof of a late Join, repeated")

	a = l.mortal()
	r = request(about + "/renew")
	l.until(l.renew(a, a.hold(r)).Add(a.TTL), r, "by the proof of a late Renew")

	r = request(about + "/await")
	a, got := l.await(r)
	l.until(got.Proof.Add(a.TTL), r, "by the proof of a late Await")
}

func (l *latecomer) fixed() {
	t := l.t
	t.Helper()
	fixed := func(queue string) driver.Request { return t.fixed(queue, t.TTL) }
	a := l.mortal()
	r := fixed("fixed/join")
	l.until(l.join(a, r).Proof.Add(r.Hold), r, "by its Hold and the proof of a late Join")

	a = l.mortal()
	r = fixed("fixed/join again")
	a.hold(r)
	l.until(l.join(a, again(r)).Proof.Add(r.Hold), r, "by its Hold and the proof of a late Join, repeated")

	a = l.mortal()
	r = fixed("fixed/renew")
	l.until(l.renew(a, a.hold(r)).Add(r.Hold), r, "by its Hold and the proof of a late Renew")

	r = fixed("fixed/await")
	_, got := l.await(r)
	l.until(got.Proof.Add(r.Hold), r, "by its Hold and the proof of a late Await")

	a = l.mortal()
	r = fixed("fixed/follow")
	a.hold(r)
	var q driver.Queue
	l.late(a, "Follow", func() (err error) { q, err = a.driver.Follow(t.Ctx, r.Queue, ""); return err })
	for _, m := range q.Members {
		l.until(q.Read.Add(m.Left), r, "by a late snapshot")
	}
}
