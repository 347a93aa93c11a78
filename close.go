package interlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
)

// Close ends waiting and every context that is bound to a lease, with the
// cause ErrClosed, waits for the running functions of Do, but no longer than
// their leases last, and releases what is held; leases of ExpiresAfter stay. A lease
// whose function is still running then is left as if its holder had died. A
// backend that cannot be reached makes Close last for about a TTL, or longer where its
// driver says so: one on the program's own ZooKeeper connection takes two more.
// A second Close does nothing and returns ErrClosed, also while the first goes on.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closing.Swap(true) {
		c.mu.Unlock()
		return fmt.Errorf("interlock: close: %w", ErrClosed)
	}
	limit := c.d.Now().Add(c.ttl) // by then everything has ended by itself
	c.mu.Unlock()

	c.cancel(ErrClosed) // ends waiting, the heartbeat and the signals
	var last driver.Instant
	for _, q := range c.allQueues() {
		q.mu.Lock()
		for n := &q.line; n != nil; n = n.next {
			n.dismiss()
		}
		q.unlock()
		q.each(func(t *ticket) { last = max(last, t.wind()) })
	}
	c.await(last, &c.bodies)
	c.leaveAll()
	c.await(limit, &c.tickets)

	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	sess := c.sess.Swap(nil)
	var errs []error
	if sess != nil {
		errs = append(errs, sess.close(limit))
	}
	errs = append(errs, c.d.Close()) // ends calls that hang
	c.reaper.stop()
	c.tasks.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("interlock: close: %w", public(err))
	}
	return nil
}

// closeTries is more than the connections of most pools. Each may have been cut since it was
// used last.
const closeTries = 6

// close ends the session, and tries again if that fails, though not for long, and after the
// limit only once more: a session that is not closed runs out.
func (n *session) close(limit driver.Instant) error {
	most := callTimeout(n.ttl)
	call := bounded.New(context.Background(), min(most, max(most/4, limit.Sub(n.c.d.Now()))))
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

// await waits until there are none of these left, but not after the limit.
func (c *Client) await(limit driver.Instant, left *atomic.Int64) {
	timer := time.NewTimer(max(0, limit.Sub(c.d.Now())))
	defer timer.Stop()
	for left.Load() > 0 {
		select {
		case <-c.quiet:
		case <-timer.C:
			return
		}
	}
}

// hush wakes Close if there is nothing left of what it waits for.
func (c *Client) hush(left int64) {
	if left > 0 || !c.closing.Load() {
		return
	}
	select {
	case c.quiet <- struct{}{}:
	default:
	}
}

// leaveAll gives back what is held, some tickets at a time.
func (c *Client) leaveAll() {
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
	c.eachTicket(func(t *ticket) { all = append(all, t) })
	for _, t := range all {
		tickets <- t
	}
	close(tickets)
	wg.Wait()
}

// enterBody notes that a function of Do runs under the ticket.
func (t *ticket) enterBody() error {
	t.q.mu.Lock()
	defer t.q.unlock()
	if t.c.closing.Load() {
		return ErrClosed
	}
	t.bodies++
	t.c.bodies.Add(1)
	return nil
}

func (t *ticket) leaveBody() {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.bodies--
	t.c.hush(t.c.bodies.Add(-1))
}

// wind ends the contexts that are bound to the ticket's leases, not the leases
// themselves. It returns the deadline if a function of Do runs under one, also
// if that was evicted.
func (t *ticket) wind() (deadline driver.Instant) {
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
	now := t.c.d.Now()
	t.q.mu.Lock()
	t.judge(now)
	held, fixed, clean := t.state == ticketHeld, t.fixed(), t.bodies == 0
	taken := (held || t.state == ticketLost) && t.take()
	forget := taken && (!held || fixed) || t.state == ticketSpent
	fate := ErrReleased
	if fixed {
		fate = ErrClosed
	}
	leases := oneEach(t.leases)
	t.endLeases(fate)
	t.q.unlock()
	for _, l := range leases {
		e := Event{Kind: EventReleased, Took: now.Sub(l.g.since)}
		if fixed {
			e.Err = ErrClosed
		}
		l.emit(e)
	}
	switch {
	case forget:
		t.unregister()
	case taken: // else whoever waits for it, or gives it back, is on the way
		_ = t.leave(clean)
	}
}
