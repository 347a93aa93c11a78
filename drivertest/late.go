package drivertest

import (
	"cmp"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// What the backend guarantees begins before it answers. Whoever counts from a late
// answer believes in the ticket for longer than it stands.
var _ = rules.Add(rule{Name: "LateAnswers", Hook: "Late", Says: []string{
	proofSays, "the local time before it was read", "from Queue.Read: how long it stands if nothing renews it",
}}, func(t *trial) {
	lasts := 2 * t.TTL
	requests := map[string]func(queue string) driver.Request{
		"one for all": t.exclusive,
		"permits":     func(queue string) driver.Request { return permits(queue, 2, 3) },
	}
	if t.fixes() {
		requests["fixed"] = func(queue string) driver.Request { return t.fixed(queue, lasts) }
	}
	var all []*latecomer
	for about, request := range requests {
		for _, method := range []string{"Join", "Join, repeated", "Renew", "Await", "Follow"} {
			if r := request(about + "/" + method); r.Hold > 0 || method != "Follow" {
				all = append(all, t.latecomer(method, r))
			}
		}
	}
	for _, l := range all {
		l.client = t.session(l.driver, lasts)
		l.begin()
	}
	resume := t.world.Late()
	for _, l := range all {
		l.done = t.Done(func() error { return t.known(l.call) })
	}
	time.Sleep(t.TTL / 2)
	resume()
	var next []*claim
	b := t.client()
	for _, l := range all {
		t.okBefore(l.driver, l.opened.Add(l.TTL), <-l.done, "%s of %q, with a late answer", l.method, l.r.Queue)
		next = append(next, b.behind(another(l.r)))
	}
	for i, l := range all {
		next[i].notBefore(l.end, "by a late answer of "+l.method)
	}
})

// latecomer makes a call whose answer is late.
type latecomer struct {
	*client
	t      *trial
	driver driver.Driver
	front  *client // holds before it
	method string
	r      driver.Request

	first, own driver.Ticket
	granted    <-chan error
	done       <-chan error
	end        driver.Instant // by the answer
}

// latecomer is one whose connections have been made: what waits for one is not sent
// when its answer is to be late.
func (t *trial) latecomer(method string, r driver.Request) *latecomer {
	t.Helper()
	l := &latecomer{t: t, driver: t.driver(), front: t.client(), method: method, r: r}
	c := t.session(l.driver, 10*limit)
	tk := c.join(t.exclusive("before " + newID()))
	c.renew(tk)
	c.leave(tk)
	t.snapshot(l.driver, tk.Queue)
	return l
}

// begin does what comes before the call.
func (l *latecomer) begin() {
	l.t.Helper()
	switch l.method {
	case "Join":
	case "Await":
		l.first = l.front.hold(another(l.r))
		l.own = l.wait(l.r)
		l.granted = l.t.Done(func() error {
			return l.t.known(func() error {
				got, err := l.Await(l.t.Ctx, l.own)
				l.proven(got.Proof)
				return err
			})
		})
	default:
		l.own = l.hold(l.r)
		l.r.Retry = true
	}
}

// proven notes until when the ticket is guaranteed.
func (l *latecomer) proven(proof driver.Instant) { l.end = proof.Add(cmp.Or(l.r.Hold, l.TTL)) }

func (l *latecomer) call() error {
	switch l.method {
	case "Await":
		if err := suite.Unless(l.front.Leave(l.t.Ctx, l.first, true), driver.ErrGone); err != nil {
			return err
		}
		return <-l.granted
	case "Renew":
		answer, err := l.Renew(l.t.Ctx, []driver.Ticket{l.own})
		if err == nil && (len(answer) != 1 || answer[0].State != driver.Kept) {
			return driver.ErrGone
		}
		for _, r := range answer {
			l.proven(r.Proof)
		}
		return err
	case "Follow":
		q, err := l.driver.Follow(l.t.Ctx, l.r.Queue, "")
		for _, m := range q.Members {
			l.end = q.Read.Add(m.Left)
		}
		return err
	default:
		got, err := l.Join(l.t.Ctx, l.r)
		l.r.Retry = true
		l.proven(got.Proof)
		return err
	}
}

// another asks for the same, without a fixed end.
func another(r driver.Request) driver.Request {
	r.ID, r.Hold, r.Retry = newID(), 0, false
	return r
}
