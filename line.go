package interlock

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// line is where the goroutines of this process that want the same lock stand.
// One of them, the driver, obtains a ticket from the backend; the ticket then
// serves them one after the other (exclusive) or all together (shared), so
// that they pay for one remote acquire, not for one each. If the driver's
// context ends, the next takes over its place in the backend's queue.
type line struct {
	c      *Client
	key    lineKey
	shared bool
	sticky bool

	mu      sync.Mutex
	waiters list.List // of *turn
	t       *ticket   // serves; nil if there is none
	pending *ticket   // queued at the backend, its driver has given up
	driving bool      // somebody obtains a ticket, or gives one back
	dead    bool      // not in Client.lines any more
}

// lineKey holds all that tickets must have in common to be shared.
type lineKey struct {
	queue    string
	kind     driver.Kind
	units    int64
	capacity int64
	robust   bool
	sticky   bool
}

// turn is one waiting goroutine.
type turn struct {
	ctx   context.Context
	lock  *Lock
	place *list.Element // nil once it is its turn
	ready chan struct{} // has a value once it is its turn
	lease *Lease        // its lease; nil: it drives
}

// Others wait for at most so many local grants, and no longer than so, before
// the ticket goes back to the backend.
const (
	maxHandovers    = 256
	maxHandoverTime = 100 * time.Millisecond
)

func (l *Lock) lineKey() lineKey {
	return lineKey{l.queue, l.kind, l.units, l.capacity, l.cfg.robust, l.cfg.sticky}
}

// line finds or makes the line of the lock, and locks it.
func (c *Client) line(l *Lock) *line {
	key := l.lineKey()
	for {
		c.mu.Lock()
		n := c.lines[key]
		if n == nil {
			n = &line{c: c, key: key, shared: !l.exclusive(), sticky: l.cfg.sticky}
			c.lines[key] = n
		}
		c.mu.Unlock()
		n.mu.Lock()
		if !n.dead {
			return n
		}
		n.mu.Unlock()
	}
}

// retire forgets the line once nobody uses it. n.mu is held.
func (n *line) retire() {
	if n.t != nil || n.driving || n.pending != nil || n.waiters.Len() > 0 {
		return
	}
	n.dead = true
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.c.lines[n.key] == n {
		delete(n.c.lines, n.key)
	}
}

// acquire is called with n.mu held, and unlocks it.
func (n *line) acquire(ctx context.Context, l *Lock, try bool) (lease *Lease, handed bool, err error) {
	if n.waiters.Len() == 0 && !n.driving {
		if lease := n.serve(ctx, l); lease != nil {
			n.mu.Unlock()
			return lease, true, nil
		}
		if n.t == nil {
			n.driving = true
			n.mu.Unlock()
			lease, err = n.drive(ctx, l, try)
			return lease, false, err
		}
	}
	if try {
		n.mu.Unlock()
		return nil, false, ErrBusy
	}
	w := &turn{ctx: ctx, lock: l, ready: make(chan struct{}, 1)}
	w.place = n.waiters.PushBack(w)
	n.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		return nil, false, n.giveUp(w, context.Cause(ctx))
	case <-n.c.ctx.Done():
		return nil, false, n.giveUp(w, ErrClosed)
	}
	if w.lease != nil {
		if ctx.Err() != nil { // both were ready: a cancelled context acquires nothing
			return nil, false, n.giveUp(w, context.Cause(ctx))
		}
		return w.lease, true, nil
	}
	lease, err = n.drive(ctx, l, false)
	return lease, false, err
}

// serve grants from the ticket at hand, if it has room. One that serves no more
// is put aside. n.mu is held, and nobody drives.
func (n *line) serve(ctx context.Context, l *Lock) *Lease {
	t := n.t
	if t == nil {
		return nil
	}
	free, usable := t.room(n)
	switch {
	case free && usable:
		if lease, err := t.grant(ctx, l); err == nil {
			t.idle = false
			return lease
		}
		n.t = nil // lost
	case t.idle && !usable:
		n.recallNow(t)
	case !usable && (n.shared || t.isOver()):
		n.t = nil // ends with its last lease, or has ended
	}
	return nil
}

// next serves those whose turn it is, or has one of them drive. n.mu is held,
// and nobody drives.
func (n *line) next() {
	for n.waiters.Len() > 0 && !n.driving {
		w := n.waiters.Front().Value.(*turn)
		w.lease = n.serve(w.ctx, w.lock)
		if w.lease == nil {
			if n.t != nil {
				return // its release serves the next
			}
			n.driving = true
		}
		n.waiters.Remove(w.place)
		w.place = nil
		w.ready <- struct{}{}
	}
	n.retire()
}

// drive obtains a ticket for the line. n.driving is set.
func (n *line) drive(ctx context.Context, l *Lock, try bool) (*Lease, error) {
	for {
		n.mu.Lock()
		t := n.pending
		n.pending = nil
		n.mu.Unlock()
		if t == nil {
			t = l.newTicket(n, try)
		}
		err := t.obtain(ctx)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		n.mu.Lock()
		if err == nil {
			lease, lost := t.grant(ctx, l)
			if lost != nil && !try { // the process was stopped just then
				n.mu.Unlock()
				continue
			}
			if lost == nil {
				n.t = t
			}
			n.driving = false
			n.next()
			n.mu.Unlock()
			return lease, lost
		}
		n.stopDriving(ctx, t)
		n.mu.Unlock()
		return nil, err
	}
}

// stopDriving passes a ticket whose driver failed on to the next waiter, if
// there is one and it can be used. n.mu is held.
func (n *line) stopDriving(ctx context.Context, t *ticket) {
	n.driving = false
	switch {
	case t == nil:
	case n.waiters.Len() == 0 || ctx.Err() == nil || t.req.NoWait:
		t.abandon()
	case t.isHeld():
		n.t = t
	default:
		n.pending = t
	}
	n.next()
}

// giveUp withdraws a waiter. What it was just given goes to the next.
func (n *line) giveUp(w *turn, why error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case w.place != nil:
		n.waiters.Remove(w.place)
		n.retire()
	case w.lease != nil:
		n.c.background(func() { _ = w.lease.Release() })
	default:
		t := n.pending
		n.pending = nil
		n.stopDriving(w.ctx, t)
	}
	return why
}

// release is called when the last lease of a grant is over.
func (n *line) release(t *ticket, clean bool) error {
	n.mu.Lock()
	t.endGrant()
	if n.t == t && clean {
		n.next()
	}
	if t.inUse() {
		n.mu.Unlock()
		return nil
	}
	if n.t != t { // put aside, or lost
		n.mu.Unlock()
		return t.leave(clean)
	}
	if clean && t.keepable(n) {
		t.idle, t.idleSince = true, n.c.d.Now()
		n.mu.Unlock()
		return nil
	}
	return n.giveTicketBack(t, clean)
}

// giveTicketBack leaves the backend's queue. n.mu is held; it is unlocked.
// Those who come meanwhile wait: they could only stand behind the ticket that
// is leaving.
func (n *line) giveTicketBack(t *ticket, clean bool) error {
	n.t = nil
	n.driving = true
	n.mu.Unlock()
	err := t.leave(clean)
	n.mu.Lock()
	n.driving = false
	n.next()
	n.mu.Unlock()
	return err
}

// lost is called when a ticket of the line serves no more.
func (n *line) lost(t *ticket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.t == t {
		n.t = nil
		n.next()
	}
}

// recall gives back a ticket that has been idle for so long.
func (n *line) recall(t *ticket, idle time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.t == t && !n.driving && t.idle && n.c.d.Now().Sub(t.idleSince) >= idle {
		n.recallNow(t)
	}
}

// recallNow gives an idle ticket back in the background. n.mu is held.
func (n *line) recallNow(t *ticket) {
	n.driving = true // until it has left
	n.c.background(func() {
		n.mu.Lock()
		n.driving = false
		_ = n.giveTicketBack(t, true)
	})
}

// room reports whether the ticket can serve another lease of the line now, and
// whether it can at all.
func (t *ticket) room(n *line) (free, usable bool) {
	now := t.c.d.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	limit, young := uint64(maxHandovers), now.Sub(t.since) < maxHandoverTime
	if n.sticky && !t.wanted {
		limit, young = maxGrants, true
	}
	if n.shared {
		limit = maxGrants
		young = young && !t.wanted
	}
	usable = t.state == ticketHeld && now < t.deadline && !t.doubt && young && t.grants < limit
	return n.shared || t.live == 0, usable
}

// keepable reports whether an idle ticket stays.
func (t *ticket) keepable(n *line) bool {
	_, usable := t.room(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.sticky && usable && !t.wanted
}

// endGrant is called with line.mu held, so that one release alone finds the
// ticket unused.
func (t *ticket) endGrant() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live--
}

func (t *ticket) inUse() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live > 0
}

func (t *ticket) isHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == ticketHeld
}

func (t *ticket) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == ticketLost || t.state == ticketLeft
}
