package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
)

// Close ends waiting and all bound contexts, waits for the functions of Do, but no longer than their leases last, and
// gives back what is held.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closing.Swap(true) {
		e.mu.Unlock()
		return ErrClosed
	}
	limit := e.d.Now().Add(e.ttl) // by then everything has ended by itself
	e.mu.Unlock()

	e.cancel(ErrClosed) // ends waiting, the heartbeat and the signals
	var last driver.Instant
	for _, q := range e.allQueues() {
		q.mu.Lock()
		for n := &q.local; n != nil; n = n.next {
			n.closeWaiters()
		}
		q.unlock()
		q.each(func(t *ticket) { last = max(last, t.endContexts()) })
	}
	e.awaitNone(last, &e.bodies)
	e.leaveAll()
	e.awaitNone(limit, &e.tickets)

	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	sess := e.sess.Swap(nil)
	var errs []error
	if sess != nil {
		errs = append(errs, sess.close(limit))
	}
	errs = append(errs, e.d.Close()) // ends calls that hang
	close(e.reaper.done)
	e.tasks.Wait()
	return Public(errors.Join(errs...))
}

// closeTries is more than the connections of most pools. Each may have been cut since it was
// used last.
const closeTries = 6

// close ends the session, and tries again if that fails, though not for long, and after the
// limit only once more: a session that is not closed runs out.
func (n *session) close(limit driver.Instant) error {
	most := callTimeout(n.ttl)
	call := bounded.New(context.Background(), min(most, max(most/4, limit.Sub(n.e.d.Now()))))
	defer call.Release()
	var b backoff.Backoff
	for try := 1; ; try++ {
		err := n.s.Close(call)
		switch {
		case err == nil || isSessionOver(err):
			return nil
		case driver.IsPermanent(err) || try == closeTries || b.Sleep(call) != nil:
			return err
		}
	}
}

// awaitNone waits until there are none of these left, but not after the limit.
func (e *Engine) awaitNone(limit driver.Instant, left *atomic.Int64) {
	timer := time.NewTimer(max(0, limit.Sub(e.d.Now())))
	defer timer.Stop()
	for left.Load() > 0 {
		select {
		case <-e.quiet:
		case <-timer.C:
			return
		}
	}
}

// wakeClose wakes Close if there is nothing left of what it waits for.
func (e *Engine) wakeClose(left int64) {
	if left > 0 || !e.closing.Load() {
		return
	}
	select {
	case e.quiet <- struct{}{}:
	default:
	}
}

// leaveAll gives back what is held, some tickets at a time.
func (e *Engine) leaveAll() {
	const atOnce = 32
	tickets := make(chan *ticket)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for t := range tickets {
				t.close()
			}
		})
	}
	var all []*ticket
	e.eachTicket(func(t *ticket) { all = append(all, t) })
	for _, t := range all {
		tickets <- t
	}
	close(tickets)
	wg.Wait()
}

// EnterBody notes that a function of Do runs under the lease.
func (l *Lease) EnterBody() error {
	t := l.t
	t.q.mu.Lock()
	defer t.q.unlock()
	if t.e.closing.Load() {
		return ErrClosed
	}
	t.bodies++
	t.e.bodies.Add(1)
	return nil
}

// LeaveBody notes that it has returned.
func (l *Lease) LeaveBody() {
	t := l.t
	t.q.mu.Lock()
	defer t.q.unlock()
	t.bodies--
	t.e.wakeClose(t.e.bodies.Add(-1))
}

// endContexts ends the contexts that are bound to the ticket's leases, not the leases
// themselves. It returns the deadline if a function of Do runs under one, also
// if that was evicted.
func (t *ticket) endContexts() (deadline driver.Instant) {
	for _, l := range t.leases {
		l.endBound(ErrClosed)
	}
	if t.bodies > 0 {
		deadline = t.deadline
	}
	return deadline
}

// close releases the ticket, or leaves it to its fixed end. One that is lost
// ends with the session.
func (t *ticket) close() {
	now := t.e.d.Now()
	t.q.mu.Lock()
	t.checkDeadline(now)
	held, fixed, clean := t.state == ticketHeld, t.fixed(), t.bodies == 0
	claimed := (held || t.state == ticketLost) && t.claim()
	forget := claimed && (!held || fixed) || t.state == ticketExpiring
	end := ErrReleased
	if fixed {
		end = ErrClosed
	}
	leases := oneEach(t.leases)
	t.endLeases(end)
	t.q.unlock()
	var why error
	if fixed {
		why = end
	}
	for _, l := range leases {
		l.by.Released(now.Sub(l.g.since), why)
	}
	switch {
	case forget:
		t.forget()
	case claimed: // else whoever waits for it, or gives it back, is on the way
		_ = t.leave(clean)
	}
}
