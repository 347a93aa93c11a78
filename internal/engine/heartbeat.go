package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bounded"
)

// beats is how many heartbeats come in a TTL.
const beats = 3

// heartbeat renews everything in one call, every third of the TTL. After a
// failure it tries again sooner, and so it does for a lease that an old proof or
// a late answer has left little time: see schedule. A call without an answer is not given up
// by then: this process or the backend may only be busy, what it proves counts for a TTL, and a
// connection that is given up costs more turns than the answer. After half of that time the next call
// goes beside it: in a busy process an answer can take half a TTL.
func (n *session) heartbeat() {
	every := n.ttl / beats
	n.plan(every, every/4)
	calls := make(chan struct{}, 2*beats) // those under way; one that does not mind its context keeps its place
	var before driver.Instant             // when the call before began, if it was late
	for n.rest() {
		began := n.e.d.Now()
		answered := make(chan error, 1)
		select {
		case calls <- struct{}{}:
		case <-n.ctx.Done():
			return
		}
		n.e.tasks.Go(func() {
			answered <- n.renew(began)
			<-calls
		})
		late := time.NewTimer(every / 2)
		err, since := context.DeadlineExceeded, before
		select {
		case err = <-answered:
			before, since = 0, began
		case <-late.C:
			before = began
		}
		late.Stop()
		took := n.e.d.Now().Sub(began)
		switch {
		case err == nil:
			n.plan(every-2*took, pause(every, took)) // the next one will take as long
			continue
		case since != 0:
			n.doubt(renewError(err, every), since)
		}
		n.plan(0, pause(every, took))
	}
}

// pause is how long a backend is spared after a heartbeat that took so long: four beats
// come in the time of one at most. Time in which it did not answer counts: if it stands still
// for a moment, and again soon, there may be no more time in between.
func pause(every, took time.Duration) time.Duration { return max(every/4-took, every/16) }

// schedule is when the next heartbeat is due. plan alone makes it later, and looks at all tickets after that: so a
// renewBy at the same time is not lost.
type schedule struct {
	at       atomic.Int64
	earliest atomic.Int64
	sooner   chan struct{} // at has moved
}

// plan has the next heartbeat come in so much time, sooner if a lease needs it, and
// never before the pause is over, which spares the backend.
func (n *session) plan(in, pause time.Duration) {
	now := n.e.d.Now()
	r := &n.schedule
	r.earliest.Store(int64(now.Add(pause)))
	r.at.Store(int64(now.Add(max(in, pause))))
	if first := n.firstEnd(); first != 0 {
		n.renewBy(first)
	}
}

// renewBy has the next heartbeat come while three fifths of the TTL are left to a lease
// that ends then: two are to be left though the answer takes one. A lease that has just
// been granted may have less time than those before.
func (n *session) renewBy(end driver.Instant) {
	r := &n.schedule
	due := max(int64(end.Add(-n.margin-n.ttl*3/5)), r.earliest.Load())
	if lower(&r.at, due) {
		select {
		case r.sooner <- struct{}{}:
		default:
		}
	}
}

// rest waits until the next heartbeat is due. It reports false if the session has ended.
func (n *session) rest() bool {
	for {
		left := driver.Instant(n.schedule.at.Load()).Sub(n.e.d.Now())
		if left <= 0 {
			return n.ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-n.schedule.sooner:
		case <-n.ctx.Done():
		}
		timer.Stop()
		if n.ctx.Err() != nil {
			return false
		}
	}
}

var (
	errForgotten  = errors.New("the backend has forgotten it")
	errEnded      = errors.New("another has ended it, or the backend has forgotten it") // of ExpiresAfter
	errNotReached = errors.New("the renewal did not reach its part of the backend")
)

// renew names the tickets that count, and no others: one that was given up must
// not live on because the session does. The answer counts as long as it proves something.
func (n *session) renew(began driver.Instant) error {
	asked, silent := n.known()
	known := make([]driver.Ticket, 0, len(asked))
	for _, t := range asked {
		known = append(known, t.current())
	}
	ctx, cancel := context.WithTimeout(n.ctx, n.ttl-n.margin)
	defer cancel()
	answer, err := n.s.Renew(ctx, known)
	switch {
	case n.ctx.Err() != nil:
		return n.ctx.Err()
	case isSessionOver(err):
		n.over(err)
		return err
	case err != nil:
		return err
	}
	n.e.mu.Lock()
	n.alive.Store(max(n.alive.Load(), int64(began)))
	n.heard, n.away = n.e.d.Now(), nil
	all := n.e.d.Exchanges()
	exchanges := all - n.e.exchanges
	n.e.exchanges = all
	n.e.mu.Unlock()
	if n.e.cfg.Observed {
		n.e.cfg.Renewed(n.ctx, n.e.d.Now().Sub(began), exchanges)
	}
	for _, r := range answer {
		if r.State == driver.Stray {
			// Else its Join crossed this renewal, or it is being left, or was: then the
			// answer may be of the time before.
			if n.e.ticket(r.Queue, r.ID) == nil && !silent[r.ID] {
				n.leaveStray(driver.Ticket{ID: r.ID, Queue: r.Queue})
			}
			continue
		}
		t := asked[r.ID]
		delete(asked, r.ID)
		switch {
		case t == nil:
		case r.State == driver.Kept:
			t.extend(r.Proof)
		case r.State == driver.Gone:
			t.lose(t.vanished(), false)
		case r.State == driver.Evicted:
			t.lose(ErrEvicted, true)
		case r.State == driver.Unasked:
			t.doubted(r.Why, began)
		}
	}
	for _, t := range asked {
		t.doubted(errNotReached, began)
	}
	return nil
}

// firstEnd is when the first of the tickets that are held ends, 0 if there is none. One
// that was granted while a renewal was under way was not named by it.
func (n *session) firstEnd() (first driver.Instant) {
	n.e.eachTicket(func(t *ticket) {
		if t.sess == n && t.state == ticketHeld && !t.fixed() && (first == 0 || t.end < first) {
			first = t.end
		}
	})
	return first
}

// known lists the tickets that count, by their IDs, and the IDs of the others that the
// client has.
func (n *session) known() (known map[string]*ticket, silent map[string]bool) {
	known, silent = make(map[string]*ticket, n.e.tickets.Load()), map[string]bool{}
	n.e.eachTicket(func(t *ticket) {
		if t.renewable(n) {
			known[t.req.ID] = t
		} else {
			silent[t.req.ID] = true
		}
	})
	return known, silent
}

// leaveStray gives back a ticket that the client has given up but the backend
// still has, such as one whose Join arrived after its Leave.
func (n *session) leaveStray(t driver.Ticket) {
	n.e.Background(func() {
		call := bounded.New(n.ctx, callTimeout(n.ttl))
		defer call.Release()
		_ = n.s.Leave(call, t, true) // else the next renewal reports it again
	})
}

// doubt marks the leases of the session that had no answer since.
func (n *session) doubt(err error, since driver.Instant) {
	n.e.mu.Lock()
	if n.heard <= since {
		n.away = err
	}
	n.e.mu.Unlock()
	known, _ := n.known()
	for _, t := range known {
		t.doubted(err, since)
	}
}
