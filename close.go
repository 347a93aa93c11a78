package interlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
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
	if c.closing {
		c.mu.Unlock()
		return fmt.Errorf("interlock: close: %w", ErrClosed)
	}
	c.closing = true
	limit := c.d.Now().Add(c.ttl) // by then everything has ended by itself
	c.mu.Unlock()

	c.cancel(ErrClosed) // ends waiting, the heartbeat and the signals
	for _, n := range c.allLines() {
		n.dismiss()
	}
	var last driver.Instant
	for _, t := range c.allTickets() {
		last = max(last, t.wind())
	}
	c.await(last, func() bool { return c.bodies == 0 })
	c.leaveAll()
	c.await(limit, func() bool { return len(c.tickets) == 0 })

	c.mu.Lock()
	c.closed = true
	sess := c.sess
	c.sess = nil
	c.mu.Unlock()
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
	call := bound(context.Background(), min(most, max(most/4, limit.Sub(n.c.d.Now()))))
	defer call.release()
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

// await waits for ok, which is called with c.mu held, but not after the limit.
func (c *Client) await(limit driver.Instant, ok func() bool) {
	timer := time.NewTimer(max(0, limit.Sub(c.d.Now())))
	defer timer.Stop()
	for {
		c.mu.Lock()
		done := ok()
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-c.quiet:
		case <-timer.C:
			return
		}
	}
}

// hush wakes Close if there is nothing left of what it waits for. c.mu is held.
func (c *Client) hush(left int) {
	if left > 0 || !c.closing {
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
	for _, t := range c.allTickets() {
		tickets <- t
	}
	close(tickets)
	wg.Wait()
}

func (c *Client) allLines() []*line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.lines))
}

func (c *Client) allTickets() []*ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.tickets))
}

// enterBody notes that a function of Do runs under the ticket.
func (t *ticket) enterBody() error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.c.closing {
		return ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bodies++
	t.c.bodies++
	return nil
}

func (t *ticket) leaveBody() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bodies--
	t.c.bodies--
	t.c.hush(t.c.bodies)
}

// wind ends the contexts that are bound to the ticket's leases, not the leases
// themselves. It returns the deadline if a function of Do runs under one, also
// if that was evicted.
func (t *ticket) wind() (deadline driver.Instant) {
	t.mu.Lock()
	t.winding = true
	var ends []func()
	for _, l := range t.leases {
		ends = append(ends, l.endBound(ErrClosed))
	}
	if t.bodies > 0 {
		deadline = t.deadline
	}
	t.mu.Unlock()
	for _, end := range ends {
		end()
	}
	return deadline
}

// close releases the ticket, or leaves it to its fixed end. One that is lost
// ends with the session.
func (t *ticket) close() {
	now := t.c.d.Now()
	t.mu.Lock()
	after := t.judge(now)
	held, fixed, clean := t.state == ticketHeld, t.fixed(), t.bodies == 0
	taken := (held || t.state == ticketLost) && t.take()
	forget := taken && (!held || fixed) || t.state == ticketSpent
	fate := ErrReleased
	if fixed {
		fate = ErrClosed
	}
	leases, unbind := oneEach(t.leases), t.endLeases(fate)
	t.mu.Unlock()
	after()
	unbind()
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
