package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/busy"
)

// Alone: a world may hang the clients of others, too.
var _ = rules.Add(rule{Name: "HangingBackend", Hook: "Hang", Alone: true, Says: []string{
	wrapsTheEnd,
	leavesOpen,
}}, func(t *trial) {
	a, b, idle := t.client(), t.client(), t.driver()
	held := a.hold(t.exclusive("q"))
	waiting := b.wait(t.exclusive("q"))
	request := t.exclusive("r")
	cell := set("c", 0, "v")

	resume := t.world.Hang()
	calls := everyCall(a.driver, a, held, request, cell)
	calls["Await"] = func(ctx context.Context) error { _, err := b.Await(ctx, waiting); return err }
	if !t.fixes() {
		delete(calls, "Keep")
	}
	calls["Load without a session"] = func(ctx context.Context) error { return suite.Err(idle.Load(ctx, "d")) }
	// These have longer, and must not keep the calls of the second round at the latest.
	for _, name := range []string{"Renew", "Load", "Load without a session"} {
		t.Calls.Go(func() { _ = calls[name](t.Ctx) })
	}
	for range 2 {
		brief, cancel := context.WithTimeout(t.Ctx, 200*time.Millisecond)
		defer cancel()
		results, bound := t.beside(brief, calls), time.After(limit/2)
		for range calls {
			select {
			case r := <-results:
				if !errors.Is(r.err, context.DeadlineExceeded) {
					resume()
					t.Fatalf("%s of a backend that hangs, when its context ended: %v", r.name, r.err)
				}
			case <-bound:
				resume()
				t.Fatalf("a call to a backend that hangs does not end with its context")
			}
		}
	}
	resume()

	// What became of the calls is open; repeated, they have happened once.
	leave := func() error { return a.Leave(t.Ctx, held, true) }
	t.OK(suite.Unless(t.known(leave), driver.ErrGone), "Leave, repeated")
	b.await(waiting)
	t.disturbs = true
	for range 2 {
		a.hold(again(request))
		t.swap(a.driver, cell)
	}
})

// A process may stop in the middle of a change, for which the backend has locked a queue. Others go on to ask for that
// queue, as many times as they have room for.
var _ = rules.Add(rule{Name: "StoppedInAChange", Hook: "LockQueue", Says: []string{
	"A client that stops in the middle of a change of a queue costs no ticket of another queue, and hides none.",
}}, func(t *trial) {
	ttl := max(2*t.TTL, 2*time.Second)
	ttl = min(2*ttl, busy.Bound(ttl))
	a, b, usual := t.session(t.driver(), ttl), t.client(), t.session(t.driver(), ttl)
	b.hold(t.exclusive("locked"))
	waits := a.wait(t.exclusive("locked"))
	var others []driver.Ticket
	var mu sync.Mutex
	proofs := map[string]driver.Instant{}
	for i := range 5 {
		tk := a.hold(t.exclusive(fmt.Sprint("other ", i)))
		others, proofs[tk.ID] = append(others, tk), tk.Proof
	}
	left := a.hold(t.exclusive("left"))
	heir := b.wait(t.exclusive("left"))
	unlock := sync.OnceFunc(t.world.LockQueue("locked"))
	t.Later(unlock)
	ctx, cancel := context.WithCancel(t.Ctx)
	defer cancel()
	t.beside(ctx, everyCall(a.driver, nil, waits, driver.Request{}, set("c", 0, "v")))
	for range 3 {
		t.Calls.Go(func() { _, _ = a.Join(ctx, t.exclusive("locked")) })
	}

	note := func(_ driver.Instant, answer []driver.Renewed) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range answer {
			if r.State == driver.Kept {
				proofs[r.ID] = max(proofs[r.ID], r.Proof)
			}
		}
	}
	alone := usual.hold(t.exclusive("alone")) // says how late things are anyway
	usual.keepalive(note, alone)
	a.keepalive(note, append(others, waits)...)
	began := b.driver.Now()
	a.leave(left)
	b.await(heir)
	shown := 0
	for q := range b.driver.Queues(t.Ctx, "") { // an error may come last
		if strings.HasPrefix(q.Name, "other ") {
			shown++
		}
	}
	t.FatalIf(shown != len(others), "%d of %d other queues are listed", shown, len(others))
	for n := 0; b.driver.Now().Sub(began) < 2*ttl; n++ {
		b.leave(b.hold(t.exclusive(fmt.Sprint("new ", n))))
		time.Sleep(ttl / 20)
	}
	mu.Lock()
	last := maps.Clone(proofs) // a heartbeat under way must not wait for a rule that has failed
	mu.Unlock()
	late := func(tk driver.Ticket) time.Duration { return b.driver.Now().Sub(last[tk.ID]) }
	if late(alone) > ttl*2/3 {
		t.Slow("a ticket of another client was last renewed %v ago, with a TTL of %v", late(alone), ttl)
	}
	for _, tk := range others {
		t.FatalIf(late(tk) > ttl, "the ticket of %q was last renewed %v ago, with a TTL of %v", tk.Queue, late(tk), ttl)
	}
})

var _ = rules.Add(rule{Name: "UnreachableBackend", Hook: "Unreachable", Says: []string{
	"It fails at once, with the reason, if the backend cannot be reached.",
}}, func(t *trial) {
	done := t.Done(func() error { return t.world.Unreachable(t.Ctx) })
	select {
	case err := <-done:
		t.FatalIf(err == nil, "Open of a backend that is not there succeeds")
		t.Logf("the reason given: %v", err)
	case <-time.After(limit / 2):
		t.Fatalf("Open of a backend that is not there still waits")
	}
})

// Messages that tell of grants and signals can be lost; heartbeats repair it.
// Alone: a world may lose the messages of others, too.
var _ = rules.Add(rule{Name: "LostMessages", Hook: "LoseMessages", Alone: true, Says: []string{
	"Renew also repairs whatever a lost message left undone: a grant that Await was not told of, a signal that was not delivered.",
	neverStray,
}}, func(t *trial) {
	a, b, held, next := t.holderAndWaiter("q")
	c := t.client()
	other := b.hold(t.exclusive("r"))
	small := c.hold(permits("s", 1, 2))
	big := b.wait(permits("s", 2, 2))
	granted, evicted := b.awaits(next), b.awaits(big)
	var first, fixed driver.Ticket
	if t.fixes() {
		first = a.hold(t.exclusive("f"))
		fixed = b.wait(t.fixed("f", 10*limit))
	}
	time.Sleep(50 * time.Millisecond) // both are under way; if not, the rule is easier to keep
	resume := t.world.LoseMessages()
	a.leave(held)
	last := c.wait(t.exclusive("r"))
	c.ask(other, driver.Revoke)
	c.ask(big, driver.Evict)
	if t.fixes() {
		a.leave(first)
		c.ask(fixed, driver.Evict)
	}
	resume()
	if r, told := b.renew(next, other, big)[fixed.ID]; told {
		t.Fatalf("Renew reports a ticket with a fixed end that was not named, and of whose grant and eviction its session has not heard: %+v", r)
	}
	a.okIn("q", <-granted, "Await of a grant whose news was lost, after Renew")
	t.Is(<-evicted, driver.ErrGone, "Await of an evicted ticket after Renew")
	b.signal(driver.Revoke, other, next, big, fixed)
	b.signal(driver.Wanted, other, next, big, fixed)
	b.leave(other)
	c.await(last)
	c.leave(small)
})

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
		for method, begin := range lateCalls {
			r := request(about + "/" + method)
			if method == "Follow" && r.Hold == 0 {
				continue
			}
			// Its connections have been made: what waits for one is not sent when its answer is to be late.
			c := t.session(t.driver(), 10*limit)
			tk := c.join(t.exclusive("before " + newID()))
			c.renew(tk)
			c.leave(tk)
			t.snapshot(c.driver, tk.Queue)
			all = append(all, &latecomer{client: c, front: t.client(), method: method, begin: begin, r: r})
		}
	}
	for _, l := range all {
		l.client = t.session(l.driver, lasts)
		l.call = l.begin(l)
	}
	resume := t.world.Late()
	for _, l := range all {
		l.done = t.Done(func() error { return t.known(l.call) })
	}
	time.Sleep(t.TTL / 2)
	resume()
	b := t.client()
	for _, l := range all {
		t.okBefore(l.driver, l.opened.Add(l.TTL), <-l.done, "%s of %q, with a late answer", l.method, l.r.Queue)
		b.behind(another(l.r)).begins(l.end, "by a late answer of "+l.method)
	}
})

// latecomer makes a call whose answer is late.
type latecomer struct {
	*client
	front  *client // holds before it
	method string
	begin  func(*latecomer) (call func() error) // does what comes before the call
	r      driver.Request
	call   func() error
	done   <-chan error
	end    driver.Instant // by the answer
}

// proven notes until when the ticket is guaranteed.
func (l *latecomer) proven(proof driver.Instant) { l.end = proof.Add(cmp.Or(l.r.Hold, l.TTL)) }

// join is the call of Join.
func (l *latecomer) join() error {
	got, err := l.Join(l.t.Ctx, l.r)
	l.r.Retry = true
	l.proven(got.Proof)
	return err
}

var lateCalls = map[string]func(l *latecomer) (call func() error){
	"Join": func(l *latecomer) func() error { return l.join },
	"Join, repeated": func(l *latecomer) func() error {
		l.hold(l.r)
		l.r.Retry = true
		return l.join
	},
	"Renew": func(l *latecomer) func() error {
		own := l.hold(l.r)
		return func() error {
			answer, err := l.Renew(l.t.Ctx, []driver.Ticket{own})
			if err == nil && (len(answer) != 1 || answer[0].State != driver.Kept) {
				return driver.ErrGone
			}
			for _, r := range answer {
				l.proven(r.Proof)
			}
			return err
		}
	},
	"Await": func(l *latecomer) func() error {
		first, own := l.front.hold(another(l.r)), l.wait(l.r)
		granted := l.t.Done(func() error {
			return l.t.known(func() error {
				got, err := l.Await(l.t.Ctx, own)
				l.proven(got.Proof)
				return err
			})
		})
		return func() error {
			if err := suite.Unless(l.front.Leave(l.t.Ctx, first, true), driver.ErrGone); err != nil {
				return err
			}
			return <-granted
		}
	},
	"Follow": func(l *latecomer) func() error {
		l.hold(l.r)
		return func() error {
			q, err := l.driver.Follow(l.t.Ctx, l.r.Queue, "")
			for _, m := range q.Members {
				l.end = q.Read.Add(m.Left)
			}
			return err
		}
	},
}

// another asks for the same, without a fixed end.
func another(r driver.Request) driver.Request {
	r.ID, r.Hold, r.Retry = newID(), 0, false
	return r
}
