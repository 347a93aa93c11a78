package interlock

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// heartbeat renews everything in one call, every third of the TTL. After a
// failure it tries again sooner, and so it does when an answer came late or
// proved little: a lease needs the next proof a third of the TTL before it ends.
func (n *session) heartbeat() {
	const beats = 3
	every := n.ttl / beats
	next := every
	for {
		if backoff.Sleep(n.ctx, next) != nil {
			return
		}
		began := n.c.d.Now()
		// A call that does not even return when its time is over is a failure too.
		stuck := time.AfterFunc(every+every/beats, func() { n.doubt(errNoAnswer) })
		err := n.renew(every)
		stuck.Stop()
		now := n.c.d.Now()
		switch {
		case n.ctx.Err() != nil:
			return
		case isSessionOver(err):
			n.over(err)
			return
		case err != nil:
			n.doubt(err)
			next = every / 4
		default:
			n.c.emit(n.ctx, Event{Kind: EventRenewed, Took: now.Sub(began)})
			next = every - now.Sub(began)
			if first := n.firstEnd(); first != 0 {
				next = min(next, first.Sub(now)-every)
			}
			next = max(next, every/4)
		}
	}
}

var (
	errNoAnswer   = errors.New("the renewal has no answer")
	errNotReached = errors.New("the renewal did not reach its part of the backend")
)

// renew names the tickets that count, and no others: one that was given up must
// not live on because the session does.
func (n *session) renew(limit time.Duration) error {
	asked := n.known()
	known := make([]driver.Ticket, 0, len(asked))
	for _, t := range asked {
		known = append(known, t.current())
	}
	ctx, cancel := context.WithTimeout(n.ctx, limit)
	defer cancel()
	answer, err := n.s.Renew(ctx, known)
	if err != nil {
		return err
	}
	for _, r := range answer {
		if r.State == driver.Stray {
			if n.c.ticket(r.ID) == nil { // else its Join crossed this renewal, or it is being left
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
			t.recall(n.ttl)
		case r.State == driver.Gone:
			t.gone(errors.New("the backend has forgotten it"))
		case r.State == driver.Evicted:
			t.evict()
		}
	}
	for _, t := range asked {
		t.doubted(errNotReached)
	}
	return nil
}

// firstEnd is when the first of the tickets that are held ends, 0 if there is none. One
// that was granted while a renewal was under way was not named by it.
func (n *session) firstEnd() (first driver.Instant) {
	for _, t := range n.known() {
		t.mu.Lock()
		if t.state == ticketHeld && !t.fixed() && (first == 0 || t.end < first) {
			first = t.end
		}
		t.mu.Unlock()
	}
	return first
}

// known lists the tickets that count, by their IDs.
func (n *session) known() map[string]*ticket {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	known := make(map[string]*ticket, len(n.c.tickets))
	for id, t := range n.c.tickets {
		if t.renewable(n) {
			known[id] = t
		}
	}
	return known
}

// leaveStray gives back a ticket that the client has given up but the backend
// still has, such as one whose Join arrived after its Leave.
func (n *session) leaveStray(t driver.Ticket) {
	n.c.background(func() {
		call := bound(n.ctx, callTimeout(n.ttl))
		defer call.release()
		_ = n.s.Leave(call, t, true) // else the next renewal reports it again
	})
}

// doubt marks every lease of the session.
func (n *session) doubt(err error) {
	for _, t := range n.known() {
		t.doubted(err)
	}
}
