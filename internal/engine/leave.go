package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// A ticket goes in one of four ways, once one caller has claimed it:
//
//	leave       by a release, which waits for it; with AtLeast it is kept for a while
//	leaveLater  in the background: it was given up or lost, and the backend may have it
//	drop        the backend does not have it
//	expire      leave was in vain: the backend has it until its end
//
// It is listed until then, so that it is no stray.

// leave releases a ticket that was claimed; with AtLeast, after its time, unless the next
// holder is to be told that the work is half done. It is repeated until it is confirmed or
// the lease has run out.
func (t *ticket) leave(clean bool) error {
	t.q.mu.Lock()
	var keep time.Duration
	if t.keep != 0 {
		keep = t.keep.Sub(t.e.d.Now())
	}
	clean = clean && !t.unseen(ticketHeld)
	limit := t.releaseLimit()
	t.q.unlock()
	err := t.repeat(limit, func(ctx context.Context, s driver.Session) error {
		if keep > 0 && (clean || !t.req.ReportDeath) {
			return s.Keep(ctx, t.tk, keep)
		}
		return s.Leave(ctx, t.tk, clean)
	})
	switch {
	case err == nil:
		t.forget()
	case IsGone(err):
		t.forget()
		return fmt.Errorf("%w: %w", ErrLost, t.vanished())
	case isSessionOver(err):
		t.forget()
		return fmt.Errorf("%w: %w", ErrLost, Public(err))
	default:
		t.expire()
	}
	return err
}

// leaveLater repeats Leave, in the background, until it is confirmed or the ticket has ended by itself. The result is
// closed when that is done.
func (t *ticket) leaveLater(end driver.Instant, clean bool) (left <-chan struct{}) {
	return t.e.Task(func() {
		defer t.forget()
		_ = t.repeat(end, func(ctx context.Context, s driver.Session) error { return s.Leave(ctx, t.current(), clean) })
	})
}

// cutShort has a ticket with a fixed end, whose holder has been told that it is evicted, end a TTL later as any other.
// The backend does not shorten what a holder that hears of nothing relies on.
func (t *ticket) cutShort() {
	ttl := t.sess.ttl
	_ = t.repeat(t.e.d.Now().Add(ttl), func(ctx context.Context, s driver.Session) error {
		return s.Keep(ctx, t.current(), ttl)
	})
}

// drop forgets the ticket, if nobody has claimed it, and returns what it was.
func (t *ticket) drop() (was ticketState) {
	t.q.mu.Lock()
	defer t.q.unlock()
	was = t.state
	if t.claim() {
		t.q.forget(t)
	}
	return was
}

// expire forgets a ticket that could not be given back when it has ended.
func (t *ticket) expire() {
	t.q.mu.Lock()
	defer t.q.unlock()
	if t.e.closing.Load() {
		t.q.forget(t)
		return
	}
	t.expiring()
	t.e.reaper.lookAt(t.end)
}

func (t *ticket) forget() {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.q.forget(t)
}

// abandon gives up a ticket that was not obtained, or cannot be used, and returns what it was. It leaves as long as it
// may stand. t may be nil.
func (t *ticket) abandon() (was ticketState) {
	if t == nil {
		return ticketLeft
	}
	t.q.mu.Lock()
	defer t.q.unlock()
	return t.abandonLocked()
}

func (t *ticket) abandonLocked() (was ticketState) {
	if t == nil {
		return ticketLeft
	}
	was = t.state
	clean := !t.unseen(was)
	switch {
	case !t.claim():
	case !t.sent:
		t.q.forget(t)
	default:
		left := t.leaveLater(t.e.d.Now().Add(max(t.sess.ttl, t.req.Hold)), clean)
		if was != ticketJoining {
			t.left = left
		}
	}
	return was
}

// Farewell is how long a caller whose context has ended waits for its ticket to leave.
const Farewell = 100 * time.Millisecond

// awaitAbandoned waits until a ticket that was abandoned, and is known to have stood, has left: it would
// refuse a TryAcquire, and show in a list. The backend may be away now, so it does not wait for long.
func (t *ticket) awaitAbandoned() {
	if t == nil {
		return
	}
	t.q.mu.Lock()
	left := t.left
	t.q.unlock()
	if left != nil {
		t.e.Await(left, Farewell)
	}
}

// Await waits for at most the given time until what is done in the background is done.
func (e *Engine) Await(done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(max(0, limit))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-e.ctx.Done(): // Close waits for it
	}
}

// releaseLimit is until when a Release waits for the ticket to leave: the backend knows nothing of AtMost.
func (t *ticket) releaseLimit() driver.Instant {
	if t.req.Hold > 0 { // it may last for days
		return min(t.deadline, t.e.d.Now().Add(t.sess.ttl))
	}
	return t.end.Add(-t.sess.margin)
}

// unconfirmed is why a ticket was not given back in time, and what was said last: ErrLost if
// the lease has run out meanwhile.
func (t *ticket) unconfirmed(last error) error {
	now := t.e.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	last = Public(last)
	switch {
	case t.req.Hold > 0 && now < t.deadline:
		return fmt.Errorf("it could not be given back within %v, and ends by itself: %w", about(t.sess.ttl), cmp.Or(last, errNotTried))
	case t.req.Hold > 0:
		return fmt.Errorf("%w: it ran out before it could be given back: %w", ErrLost, cmp.Or(last, errNotTried))
	case last == nil:
		return fmt.Errorf("%w: it ran out before it could be given back: %s", ErrLost, t.describeSilence(now))
	}
	return fmt.Errorf("%w: it ran out before it could be given back: %s; %w", ErrLost, t.describeSilence(now), last)
}

// errNotTried: the time was over before the first try.
var errNotTried = errors.New("this process stood still")

// released is written before a ticket goes back and read after one is granted:
// what a holder did happens before what the next holder of this process does, in
// the sense of Go's memory model, also where the two meet in the backend only.
var released atomic.Uint64

// repeat makes the call until it has an answer, or the limit has passed: then it returns
// unconfirmed. The last tries come just before that, for others wait for the lock. A refusal
// is no answer: the server may be read-only for the second of a switch-over, or the rights may
// come back.
func (t *ticket) repeat(limit driver.Instant, call func(context.Context, driver.Session) error) error {
	released.Add(1)
	b := backoff.Backoff{Most: min(t.sess.ttl/12, time.Second)}
	var last error
	for first := true; ; first = false {
		left := limit.Sub(t.e.d.Now())
		if left <= 0 {
			return t.unconfirmed(last)
		}
		err := t.exchange(context.Background(), min(left, callTimeout(t.sess.ttl)), call)
		switch {
		case err == nil:
			return nil
		case IsGone(err) && !first:
			return nil // an earlier call took effect, its reply was lost
		case isSessionOver(err) && t.req.Hold > 0: // the next session will do
		case errors.Is(err, ErrClosed):
			return err
		case IsGone(err) || isSessionOver(err):
			return err
		case driver.IsPermanent(err) && t.e.isClosed():
			return ErrClosed // the end of its session has released it
		}
		last = err
		left = limit.Sub(t.e.d.Now())
		time.Sleep(min(b.Next(), max(left/2, lastTries)))
	}
}

// lastTries is how soon one try follows another at the end.
const lastTries = 5 * time.Millisecond

// exchange makes one call in the ticket's session, or in the current one if
// the ticket outlives sessions.
func (t *ticket) exchange(ctx context.Context, limit time.Duration, call func(context.Context, driver.Session) error) error {
	bounded := t.bound(ctx, limit)
	defer bounded.Release()
	sess := t.sess
	if t.req.Hold > 0 {
		var err error
		if sess, err = t.e.session(bounded, nil); err != nil {
			if sess = t.e.sess.Load(); sess == nil {
				return err
			}
		}
	}
	return call(bounded, sess.s)
}

var (
	errClosedBefore = fmt.Errorf("%w: %w", ErrLost, ErrClosed) // others may have held the lock since
	errByAnother    = fmt.Errorf("%w: another lease of it was released", ErrLost)
)

func (l *Lease) releaseOnce(clean bool) error {
	t, g := l.t, l.g
	now := t.e.d.Now()
	t.q.mu.Lock()
	t.checkDeadline(now)
	ended := l.why // before
	l.given = true
	l.endOverrun()
	if ended == nil {
		l.end(ErrReleased)
		t.remove(l)
	}
	g.leases--
	g.unclean = g.unclean || !clean
	over, clean := g.leases == 0, !g.unclean
	var p parting
	if over {
		t.live--
		p = t.parting(clean, now)
		if p.claimed && t.req.Hold > 0 { // adopted: what one releases, all lose
			t.e.tell(t.leases, func(by Holder, at time.Time) { by.Lost(at, errByAnother) })
			t.endLeases(errByAnother)
		}
	}
	var left <-chan struct{}
	limit := t.releaseLimit()
	if ended != nil && p.claimed {
		left = t.leaveLater(t.end, false) // what was done under it may be half done
	}
	t.q.unlock()
	if ended != nil {
		if left != nil { // a program may end after this, and a ticket that was evicted would keep others out until its end
			t.e.Await(left, limit.Sub(now))
		}
		if ended == ErrReleased {
			return errClosedBefore
		}
		return ended
	}
	if over {
		l.by.Released(now.Sub(g.since), nil)
	}
	switch {
	case p.next != nil:
		p.next.ready <- struct{}{}
	case p.rests:
		p.local.keepIdle(t, now)
	case p.claimed && p.local != nil:
		return l.lostAfterAll(p.local.leave(t, clean))
	case p.claimed:
		return l.lostAfterAll(t.leave(clean))
	}
	return nil
}

// lostAfterAll makes err the end of the lease if it was lost while it was given back.
func (l *Lease) lostAfterAll(err error) error {
	if errors.Is(err, ErrLost) {
		l.locked(func() { l.why = err })
	}
	return err
}

// parting is what is left to do when a grant is over and its contexts have ended.
type parting struct {
	next    *waiter     // the ticket was handed on to this one
	rests   bool        // the local queue keeps the ticket
	claimed bool        // the ticket goes back
	local   *localQueue // that it served; nil if it served none
}

// parting decides what becomes of the ticket when a grant is over.
func (t *ticket) parting(clean bool, now driver.Instant) (p parting) {
	switch n := t.local; {
	case t.live > 0 && !(t.req.Hold > 0 && t.state == ticketHeld):
	case t.state == ticketHeld && n != nil && n.t == t:
		return n.handOver(clean, now)
	case t.state == ticketHeld, t.state == ticketLost:
		p.claimed = t.claim()
	}
	return p
}

// remove takes a lease off the list.
func (t *ticket) remove(l *Lease) {
	last := t.leases[len(t.leases)-1]
	t.leases[l.at] = last
	last.at = l.at
	t.leases[len(t.leases)-1] = nil
	t.leases = t.leases[:len(t.leases)-1]
}
