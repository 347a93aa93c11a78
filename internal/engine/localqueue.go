package engine

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// localQueue is where the goroutines of this process that want the same lock wait.
// One of them fetches a ticket from the backend; the ticket then
// serves them one after the other (exclusive) or all together (shared), so
// that they pay for one remote acquire, not for one each. If the context of the one
// that fetches ends, the next takes over its place in the backend's queue.
//
// Whenever the mutex of the queue is free and goroutines wait, either one of them fetches a ticket, or a
// ticket is in use whose release serves the next.
type localQueue struct {
	q      *queue // nil: no goroutine has come yet
	key    localKey
	shared bool
	next   *localQueue // of the queue

	waiters   list[waiter]   // first come, first served
	t         *ticket        // serves; nil if there is none
	idle      bool           // t is kept without a lease
	idleSince driver.Instant //
	asking    *ticket        // that was last asked for
	pending   *ticket        // obtained or queued, and given up by the one that fetched it
	fetching  bool           // a goroutine obtains a ticket, or gives one back
}

// localKey holds all that tickets of a queue must have in common to be shared.
type localKey struct {
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
	MaxHandovers    = 256
	maxHandoverTime = 100 * time.Millisecond
)

// acquire gets a lease, in turn with other goroutines. handed says that the backend was not asked.
func (q *queue) acquire(ctx context.Context, l *Lease, try bool) (handed bool, err error) {
	q.mu.Lock()
	n := q.localOf(l.r)
	if n.waiters.empty() && !n.fetching {
		if n.t != nil && n.serve(l, q.e.d.Now()) {
			q.unlock()
			return true, nil
		}
		if old, ok := n.beginFetch(); ok {
			q.unlock()
			return false, n.fetch(ctx, l, old, try)
		}
	}
	switch {
	case try && n.shared && n.fetching:
		q.unlock() // the fetch may have to wait, a try may not
		return false, q.acquireWith(ctx, l, nil, nil, true)
	case try:
		q.unlock()
		return false, q.e.busy()
	case q.e.closing.Load():
		q.unlock()
		return false, ErrClosed
	}
	w := q.e.spare.get(l)
	if n.shared {
		q.arrivals++
		w.came = q.arrivals
	}
	n.waiters.push(&w.place, w)
	q.unlock()
	waits(l.by)
	step, over := l.by.BeginWait(ctx, "")
	if done := step.Done(); done == nil {
		<-w.ready
	} else {
		select {
		case <-w.ready:
		case <-done:
			over()
			return false, n.cancelWait(step, w, false)
		}
	}
	over()
	switch {
	case w.closed:
		return false, ErrClosed
	case !w.served:
		old := w.old
		q.e.spare.put(w)
		return false, n.fetch(ctx, l, old, false)
	case ctx.Err() != nil: // both were ready: a cancelled context acquires nothing
		return false, n.cancelWait(ctx, w, true)
	}
	q.e.spare.put(w)
	return true, nil
}

// serve grants from the ticket at hand, if that can serve now.
func (n *localQueue) serve(l *Lease, now driver.Instant) bool {
	t := n.t
	if t == nil || n.writerWaits() || !t.usable(n, now) || !n.shared && t.live > 0 {
		return false
	}
	n.idle = false
	t.grant(l, now)
	return true
}

// beginFetch lets the caller fetch a ticket, after serve has failed, if nothing stands
// before it: a ticket that serves no more is put aside, to end with its last
// lease, or if it has none, is claimed and returned to be given back first.
func (n *localQueue) beginFetch() (old *ticket, ok bool) {
	if t := n.t; t != nil {
		if t.live > 0 && t.state == ticketHeld && !n.shared {
			return nil, false // its release serves the next
		}
		if t.live == 0 && t.claim() {
			old = t
		}
	}
	n.t, n.idle, n.fetching = nil, false, true
	return old, true
}

// serveNext serves those whose turn it is, or has one of them fetch a ticket.
func (n *localQueue) serveNext() {
	if n.waiters.empty() || n.fetching {
		return
	}
	now := n.q.e.d.Now()
	for !n.waiters.empty() && !n.fetching {
		w := n.waiters.first.of
		if w.served = n.serve(w.lease, now); !w.served {
			var ok bool
			if w.old, ok = n.beginFetch(); !ok {
				return
			}
		}
		n.waiters.remove(&w.place)
		w.ready <- struct{}{}
	}
}

// fetch obtains a ticket for the queue, after giving back the old one, if any: it waits for that, but not longer than
// ctx. n.fetching is set.
func (n *localQueue) fetch(ctx context.Context, l *Lease, old *ticket, try bool) error {
	if old != nil {
		select {
		case <-n.q.e.Task(func() { _ = old.leave(true) }):
		case <-ctx.Done():
		case <-n.q.e.ctx.Done():
		}
	}
	n.q.mu.Lock()
	t := n.pending
	n.pending = nil
	n.q.unlock()
	return n.q.acquireWith(ctx, l, n, t, try)
}

// serveFrom has a ticket that was fetched, and has its first lease, serve the waiters.
func (n *localQueue) serveFrom(t *ticket) {
	n.t, n.asking, n.fetching = t, nil, false
	n.admit(t)
	n.serveNext()
}

// stopFetching passes the ticket of a driver that gives up on to the next waiter, if there is one, but not if
// the ticket itself is the reason.
func (n *localQueue) stopFetching(t *ticket, givesUp bool) {
	n.asking, n.fetching = nil, false
	if !(givesUp && !n.waiters.empty() && n.inherit(t)) {
		t.abandonLocked()
	}
	n.serveNext()
}

// inherit keeps a ticket for the next waiter, unless it has been lost.
func (n *localQueue) inherit(t *ticket) bool {
	switch {
	case t == nil || t.req.NoWait || t.state > ticketHeld:
		return false
	case t.state == ticketHeld:
		n.t = t
		n.admit(t)
	default:
		n.pending = t
	}
	return true
}

// admit serves the readers who waited here when their ticket was granted, at most
// maxHandovers of them: a writer who waits at the backend by now came after the ticket that
// all of them waited for. One of this client keeps out those who came after it.
func (n *localQueue) admit(t *ticket) {
	if !n.shared || n.waiters.empty() {
		return
	}
	now, writer := n.q.e.d.Now(), n.q.firstWriter()
	for w := range n.waiters.all() {
		if w.came >= writer || !t.sound(now) || t.grants >= MaxHandovers {
			return
		}
		n.waiters.remove(&w.place)
		t.grant(w.lease, now)
		w.served = true
		w.ready <- struct{}{}
	}
}

// cancelWait withdraws a waiter, and says why. What it was just given goes to the next; not before the waiter was
// woken, which it says if it was: until then bound contexts of the last holder may not have ended.
func (n *localQueue) cancelWait(ctx context.Context, w *waiter, woken bool) error {
	q := n.q
	q.mu.Lock()
	defer q.unlock()
	why := context.Cause(ctx)
	switch {
	case !n.fetching: // it waits for a lease of this process
	case n.asking != nil && n.asking.state == ticketJoining:
		why = Unanswered(ctx, nil)
	default:
		why = q.e.EndOfWait(ctx)
	}
	switch {
	case w.place.listed():
		n.waiters.remove(&w.place)
	case w.closed:
	case w.served:
		// What it was told of the last holder is for the next one to hear.
		n.q.e.Background(func() {
			if !woken {
				<-w.ready
			}
			_ = w.lease.Release(!w.lease.g.inherited)
		})
	default:
		if w.old != nil {
			n.q.e.Background(func() { _ = w.old.leave(true) })
		}
		t := n.pending
		n.pending = nil
		n.stopFetching(t, true)
	}
	return why
}

// closeWaiters tells all who wait that the client is closed. It spares them watching
// for that: a channel that all of them watch is what they would contend for.
func (n *localQueue) closeWaiters() {
	for w := range n.waiters.all() {
		n.waiters.remove(&w.place)
		w.closed = true
		w.ready <- struct{}{}
	}
}

// handOver decides what becomes of the ticket that nobody holds any more: the next waiter has it, it stays here, or it
// is claimed. Nobody
// is woken, and nobody else served, before the bound contexts of the last holder have ended.
func (n *localQueue) handOver(clean bool, now driver.Instant) (p parting) {
	t := n.t
	p.local = n
	if clean && t.usable(n, now) {
		if !n.waiters.empty() {
			w := n.waiters.first.of
			n.waiters.remove(&w.place)
			t.grant(w.lease, now)
			w.served, p.next = true, w
			return p
		}
		if n.key.sticky && !t.wanted {
			n.fetching, p.rests = true, true
			return p
		}
	}
	n.t, n.fetching, p.claimed = nil, true, t.claim()
	return p
}

// keepIdle keeps the ticket that handOver has left here, unless it was lost, or asked for,
// in between.
func (n *localQueue) keepIdle(t *ticket, now driver.Instant) {
	n.q.mu.Lock()
	defer n.q.unlock()
	n.fetching = false
	if n.t == t {
		n.idle, n.idleSince = true, now
	}
	n.serveNext()
	if n.t == t && n.idle && (t.wanted || t.revoked || n.writerWaits()) {
		n.leaveIdle(t)
	}
}

// leave leaves the backend's queue. Those who come meanwhile wait: they
// could only stand behind the ticket that is leaving. n.fetching is set.
func (n *localQueue) leave(t *ticket, clean bool) error {
	n.q.refs.Add(1)
	defer n.q.leave()
	err := t.leave(clean)
	n.q.mu.Lock()
	defer n.q.unlock()
	n.fetching = false
	n.serveNext()
	return err
}

// ticketLost is called when a ticket serves no more.
func (n *localQueue) ticketLost(t *ticket) {
	if n.t == t {
		n.t, n.idle = nil, false
		n.serveNext()
	}
}

// leaveIfIdle gives back a ticket that has been idle for so long.
func (n *localQueue) leaveIfIdle(t *ticket, idle time.Duration) {
	if n.t == t && n.idle && n.q.e.d.Now().Sub(n.idleSince) >= idle {
		n.leaveIdle(t)
	}
}

// leaveIdle gives back an idle ticket.
func (n *localQueue) leaveIdle(t *ticket) {
	if !t.claim() {
		return // it was lost just now, and ticketLost is about to be called
	}
	n.t, n.idle, n.fetching = nil, false, true
	n.q.e.Background(func() { _ = n.leave(t, true) })
}

// usable reports whether the ticket may serve another lease, as far
// as it knows itself.
func (t *ticket) usable(n *localQueue, now driver.Instant) bool {
	switch {
	case !t.sound(now):
		return false
	case t.grants >= MaxGrants, now < t.keep, t.wanted && (n.shared || t.grants >= MaxHandovers):
		return false
	case n.key.sticky && !t.wanted:
		return true
	}
	return now.Sub(t.since) < maxHandoverTime
}

// sound reports whether the ticket is held, and nothing is wrong with it or the client.
func (t *ticket) sound(now driver.Instant) bool {
	return t.state == ticketHeld && now < t.deadline && t.doubt == nil && !t.revoked && !t.e.closing.Load()
}

// writerWaits reports whether this client has a ticket for the writer's side,
// which can only wait while readers hold the lock, and came before new ones.
func (n *localQueue) writerWaits() bool { return n.shared && n.q.writers > 0 }

// waiter is one goroutine that waits in a local queue.
type waiter struct {
	lease *Lease        // that it waits for
	ready chan struct{} // has a value once it is its turn

	// Guarded by the mutex of the queue until it is its turn.
	place  node[waiter]
	came   uint64  // of queue.arrivals, in one of readers
	closed bool    // the client is closed
	served bool    // it has the lease; else it fetches a ticket
	old    *ticket // of one who fetches: to be given back first
}

// spareWaiters serve one client: the channels of a simulated world cannot
// be used in another.
type spareWaiters struct{ pool sync.Pool }

func (s *spareWaiters) get(l *Lease) *waiter {
	w, ok := s.pool.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.lease = l
	return w
}

// put is called by the waiter, after it has received from ready.
func (s *spareWaiters) put(w *waiter) {
	*w = waiter{ready: w.ready}
	s.pool.Put(w)
}
