package interlock

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// line is where the goroutines of this process that want the same lock stand.
// One of them, the driver, obtains a ticket from the backend; the ticket then
// serves them one after the other (exclusive) or all together (shared), so
// that they pay for one remote acquire, not for one each. If the driver's
// context ends, the next takes over its place in the backend's queue.
//
// Whenever line.mu is free and somebody waits, either somebody drives or a
// ticket is in use whose release serves the next.
type line struct {
	c      *Client
	key    lineKey
	shared bool
	sticky bool

	mu        sync.Mutex
	waiters   turns
	t         *ticket        // serves; nil if there is none
	idle      bool           // t is kept without a lease
	idleSince driver.Instant //
	asking    *ticket        // that the driver last asked for
	pending   *ticket        // obtained or queued, its driver has given up
	driving   bool           // somebody obtains a ticket, or gives one back
	dead      bool           // not in Client.lines any more
	closed    bool           // nobody waits any more: the client is closed
}

// lineKey holds all that tickets must have in common to be shared.
type lineKey struct {
	queue       string
	kind        driver.Kind
	units       int64
	capacity    int64
	reportDeath bool
	sticky      bool
}

// A ticket goes back to the backend after so many local grants, sooner if
// another waits there, and after so long in any case: the backend's word that
// somebody waits may be late.
const (
	maxHandovers    = 256
	maxHandoverTime = 100 * time.Millisecond
)

// line finds or makes the line of the lock, and locks it.
func (c *Client) line(l *Lock) *line {
	key := lineKey{l.queue, l.kind, l.units, l.capacity, l.cfg.reportDeath, l.cfg.sticky}
	for {
		c.mu.Lock()
		n := c.lines[key]
		if n == nil {
			n = &line{c: c, key: key, shared: !l.exclusive(), sticky: l.cfg.sticky, closed: c.closing}
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
	if n.dead || n.t != nil || n.driving || n.pending != nil || !n.waiters.empty() {
		return
	}
	n.dead = true
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	delete(n.c.lines, n.key)
}

// acquire is called with n.mu held, and unlocks it. handed says that the
// backend was not asked.
func (n *line) acquire(ctx context.Context, l *Lock, try bool) (lease *single, handed bool, err error) {
	if n.waiters.empty() && !n.driving {
		if n.t != nil {
			if lease := n.serve(ctx, l, n.c.d.Now()); lease != nil {
				n.mu.Unlock()
				return lease, true, nil
			}
		}
		if old, ok := n.beginDriving(); ok {
			n.mu.Unlock()
			lease, err = n.drive(ctx, l, old, try)
			return lease, false, err
		}
	}
	switch {
	case try:
		n.mu.Unlock()
		return nil, false, n.c.busy()
	case n.closed:
		n.mu.Unlock()
		return nil, false, ErrClosed
	}
	w := n.c.spare.get(ctx, l)
	if n.shared {
		w.came = n.c.arrivals.Add(1)
	}
	n.waiters.push(w)
	n.mu.Unlock()
	n.c.waits(ctx)
	step, over := l.beginWait(ctx, nil)
	if done := step.Done(); done == nil {
		<-w.ready
	} else {
		select {
		case <-w.ready:
		case <-done:
			over()
			return nil, false, n.giveUp(step, w, false)
		}
	}
	over()
	switch {
	case w.closed:
		return nil, false, ErrClosed
	case w.lease == nil:
		old := w.old
		n.c.spare.put(w)
		lease, err = n.drive(ctx, l, old, false)
		return lease, false, err
	case ctx.Err() != nil: // both were ready: a cancelled context acquires nothing
		return nil, false, n.giveUp(ctx, w, true)
	}
	lease = w.lease
	n.c.spare.put(w)
	return lease, true, nil
}

// serve grants from the ticket at hand, if that can serve now. n.mu is held.
func (n *line) serve(ctx context.Context, l *Lock, now driver.Instant) *single {
	t := n.t
	if t == nil || n.writerWaits() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.usable(n, now) || t.winding || !n.shared && t.live > 0 {
		return nil
	}
	n.idle = false
	return t.newLease(ctx, l, now)
}

// beginDriving lets the caller drive, after serve has failed, if nothing stands
// before it: a ticket that serves no more is put aside, to end with its last
// lease, or if it has none, is taken and returned to be given back first. n.mu is held.
func (n *line) beginDriving() (old *ticket, ok bool) {
	if t := n.t; t != nil {
		t.mu.Lock()
		serves := t.live > 0 && t.state == ticketHeld && !n.shared
		if t.live == 0 && t.take() {
			old = t
		}
		t.mu.Unlock()
		if serves {
			return nil, false // its release serves the next
		}
	}
	n.t, n.idle, n.driving = nil, false, true
	return old, true
}

// next serves those whose turn it is, or has one of them drive. n.mu is held.
func (n *line) next() {
	if !n.waiters.empty() && !n.driving {
		n.nextAt(n.c.d.Now())
	}
	n.retire()
}

func (n *line) nextAt(now driver.Instant) {
	for !n.waiters.empty() && !n.driving {
		w := n.waiters.first
		if w.lease = n.serve(w.ctx, w.lock, now); w.lease == nil {
			var ok bool
			if w.old, ok = n.beginDriving(); !ok {
				return
			}
		}
		n.waiters.remove(w)
		w.ready <- struct{}{}
	}
}

// drive obtains a ticket for the line, after giving back the old one, if any.
// n.driving is set.
func (n *line) drive(ctx context.Context, l *Lock, old *ticket, try bool) (*single, error) {
	if old != nil {
		n.part(ctx, old)
	}
	n.mu.Lock()
	t := n.pending
	n.pending = nil
	n.mu.Unlock()
	for {
		var err error
		t, err = l.obtain(ctx, n, t, try)
		cancelled := ctx.Err() != nil
		if err == nil && cancelled {
			err = context.Cause(ctx)
		}
		gives := cancelled || errors.Is(err, ErrDeadlock)
		n.mu.Lock()
		if err != nil {
			n.stopDriving(t, gives)
			n.mu.Unlock()
			if gives {
				t.awaitAbandoned()
			}
			return nil, err
		}
		lease, err := t.grant(ctx, l, t.since)
		if err != nil { // it was lost just then
			n.mu.Unlock()
			t = nil
			continue
		}
		n.t, n.asking, n.driving = t, nil, false
		n.admit(t)
		n.next()
		n.mu.Unlock()
		return lease, nil
	}
}

// part gives a ticket back that was taken, and waits for that, but not longer than ctx.
func (n *line) part(ctx context.Context, t *ticket) {
	left := make(chan struct{})
	n.c.background(func() {
		defer close(left)
		_ = t.leave(true)
	})
	select {
	case <-left:
	case <-ctx.Done():
	case <-n.c.ctx.Done():
	}
}

// stopDriving passes the ticket of a driver that gives up on to the next waiter, if there is one, but not if
// the ticket itself is the reason. n.mu is held.
func (n *line) stopDriving(t *ticket, givesUp bool) {
	n.asking, n.driving = nil, false
	if t != nil && !(givesUp && !n.waiters.empty() && n.inherit(t)) {
		t.abandon()
	}
	n.next()
}

// inherit keeps a ticket for the next waiter, unless it has been lost. n.mu is held.
func (n *line) inherit(t *ticket) bool {
	t.mu.Lock()
	state := t.state
	if t.req.NoWait {
		state = ticketLeft
	}
	switch state {
	case ticketJoining, ticketQueued:
		n.pending = t
	case ticketHeld:
		n.t = t
	}
	t.mu.Unlock()
	if state == ticketHeld {
		n.admit(t)
	}
	return state <= ticketHeld
}

// admit serves the readers who stood in the line when their ticket was granted, at most
// maxHandovers of them: a writer who waits at the backend by now came after the ticket that
// all of them waited for. One of this client keeps out those who came after it. n.mu is held.
func (n *line) admit(t *ticket) {
	if !n.shared || n.waiters.empty() {
		return
	}
	now, writer := n.c.d.Now(), n.firstWriter()
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := n.waiters.first; w != nil && w.came < writer; w = n.waiters.first {
		if !t.sound(now) || t.winding || t.grants >= maxHandovers {
			return
		}
		n.waiters.remove(w)
		w.lease = t.newLease(w.ctx, w.lock, now)
		w.ready <- struct{}{}
	}
}

// asks notes the ticket that the driver asks for. n is nil for a ticket without a line.
func (n *line) asks(t *ticket) {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.asking = t
	n.mu.Unlock()
}

// giveUp withdraws a waiter, and says why. What it was just given goes to the next; not before the waiter was
// woken, which it says if it was: until then bound contexts of the last holder may not have ended.
func (n *line) giveUp(ctx context.Context, w *turn, woken bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	why := context.Cause(ctx)
	switch {
	case !n.driving: // it waits for a lease of this process
	case n.asking != nil && n.asking.unanswered():
		why = unanswered(ctx)
	default:
		_, why = n.c.paused()
		why = n.c.because(ctx, why)
	}
	switch {
	case w.waiting:
		n.waiters.remove(w)
		n.retire()
	case w.closed:
	case w.lease != nil:
		// What it was told of the last holder is for the next one to hear.
		n.c.background(func() {
			if !woken {
				<-w.ready
			}
			_ = w.lease.lease.release(!w.lease.g.inherited)
		})
	default:
		if w.old != nil {
			n.c.background(func() { _ = w.old.leave(true) })
		}
		t := n.pending
		n.pending = nil
		n.stopDriving(t, true)
	}
	return why
}

// dismiss tells all who wait that the client is closed. It spares them watching
// for that: a channel that all of them watch is what they would contend for.
func (n *line) dismiss() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for !n.waiters.empty() {
		w := n.waiters.first
		n.waiters.remove(w)
		w.closed = true
		w.ready <- struct{}{}
	}
	n.retire()
}

// pass decides what becomes of the line's ticket, which nobody holds any more: the next
// waiter has it, the line keeps it, or it is taken. n.mu and the ticket's are held. Nobody
// is woken, and nobody else served, before the bound contexts of the last holder have ended.
func (n *line) pass(clean bool, now driver.Instant) (p parting) {
	t := n.t
	p.served = true
	if clean && t.usable(n, now) && !t.winding {
		if w := n.waiters.first; w != nil {
			n.waiters.remove(w)
			w.lease = t.newLease(w.ctx, w.lock, now)
			p.next = w
			return p
		}
		if n.sticky && !t.wanted {
			n.driving, p.rests = true, true
			return p
		}
	}
	n.t, n.driving, p.taken = nil, true, t.take()
	return p
}

// settle keeps the ticket that pass has left with the line, unless it was lost, or asked for,
// in between.
func (n *line) settle(t *ticket, now driver.Instant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.driving = false
	if n.t == t {
		n.idle, n.idleSince = true, now
	}
	n.next()
	if n.t == t && n.idle && (t.isAskedFor() || n.writerWaits()) {
		n.sendBack(t)
	}
}

// giveBack leaves the backend's queue. Those who come meanwhile wait: they
// could only stand behind the ticket that is leaving. n.driving is set.
func (n *line) giveBack(t *ticket, clean bool) error {
	err := t.leave(clean)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.driving = false
	n.next()
	return err
}

// lost is called when a ticket of the line serves no more.
func (n *line) lost(t *ticket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.t == t {
		n.t, n.idle = nil, false
		n.next()
	}
}

// recall gives back a ticket that has been idle for so long.
func (n *line) recall(t *ticket, idle time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.t == t && n.idle && n.c.d.Now().Sub(n.idleSince) >= idle {
		n.sendBack(t)
	}
}

// sendBack gives back an idle ticket. n.mu is held.
func (n *line) sendBack(t *ticket) {
	t.mu.Lock()
	taken := t.take()
	t.mu.Unlock()
	if !taken {
		return // it was lost just now, and the line is about to be told
	}
	n.t, n.idle, n.driving = nil, false, true
	n.c.background(func() { _ = n.giveBack(t, true) })
}

// usable reports whether the ticket may serve another lease of the line, as far
// as it knows itself. t.mu is held.
func (t *ticket) usable(n *line, now driver.Instant) bool {
	switch {
	case !t.sound(now):
		return false
	case t.grants >= maxGrants, now < t.keep, t.wanted && (n.shared || t.grants >= maxHandovers):
		return false
	case n.sticky && !t.wanted:
		return true
	}
	return now.Sub(t.since) < maxHandoverTime
}

// sound reports whether the ticket is held, and nothing is wrong with it. t.mu is held.
func (t *ticket) sound(now driver.Instant) bool {
	return t.state == ticketHeld && now < t.deadline && t.doubt == nil && !t.revoked
}

// writerWaits reports whether this client has a ticket for the writer's side,
// which can only wait while readers hold the lock, and came before new ones.
func (n *line) writerWaits() bool {
	if !n.shared {
		return false
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return len(n.c.writers[n.key.queue]) > 0
}

// firstWriter is the arrival of the first ticket of this client that waits for the writer's
// side; none comes as late as its result if there is none.
func (n *line) firstWriter() (came uint64) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	for _, t := range n.c.writers[n.key.queue] {
		t.mu.Lock()
		waits := t.state <= ticketQueued
		t.mu.Unlock()
		if waits {
			return t.came
		}
	}
	return math.MaxUint64
}

// isAskedFor reports whether somebody else wants the ticket's lock.
func (t *ticket) isAskedFor() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wanted || t.revoked
}
