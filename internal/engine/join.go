package engine

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Acquire waits until the lease is held; with try it makes one try. handed says that another goroutine has handed it
// on.
func (e *Engine) Acquire(ctx context.Context, l *Lease, try bool) (handed bool, err error) {
	if try {
		call := e.Call(ctx)
		defer call.Release()
		ctx = call
	}
	q := e.queue(l.r.Queue)
	defer q.leave()
	if !l.r.shares() {
		return false, q.acquireWith(ctx, l, nil, nil, try)
	}
	return q.acquire(ctx, l, try)
}

// acquireWith obtains a ticket, beginning with t unless that is nil, and makes l the lease of a turn of it. The ticket
// goes on to serve the local queue n, unless that is nil.
func (q *queue) acquireWith(ctx context.Context, l *Lease, n *localQueue, t *ticket, try bool) error {
	for {
		var err error
		t, err = q.obtain(ctx, l, n, t, try)
		cancelled := ctx.Err() != nil
		if err == nil && cancelled {
			err = context.Cause(ctx)
		}
		gives := cancelled || errors.Is(err, ErrDeadlock)
		now := q.e.d.Now()
		q.mu.Lock()
		switch {
		case err != nil && n != nil:
			n.stopFetching(t, gives)
		case err != nil:
			t.abandonLocked()
		default:
			if t.checkDeadline(now); t.state != ticketHeld || q.e.closing.Load() { // it was lost just then
				q.unlock()
				t = nil
				continue
			}
			t.grant(l, now)
			if n != nil {
				n.serveFrom(t)
			}
		}
		q.unlock()
		if gives {
			t.awaitAbandoned()
		}
		return err
	}
}

// waits tells of a wait; by may be nil.
func waits(by Holder) {
	if by != nil {
		by.Waits()
	}
}

// obtain waits until it has a ticket that is held, beginning with t unless that
// is nil. Lost replies, an unreachable backend and sessions that die are
// overcome until ctx ends; with try it makes one try, another if its ticket came to
// nothing. The ticket that comes with an error may stand at the backend: obtain it
// again, or abandon it.
func (q *queue) obtain(ctx context.Context, l *Lease, n *localQueue, t *ticket, try bool) (*ticket, error) {
	var b backoff.Backoff
	var last error // why a try failed
	as := wanted{r: l.r}
	for {
		if t == nil {
			var err error
			if t, err = q.newTicket(ctx, as.r, l.by, n, try); err != nil {
				return nil, err
			}
		}
		err := t.attempt(ctx, l.by)
		verdict := t.classify(ctx, err)
		switch verdict {
		case obtained:
			return t, nil
		case ended:
			return t, t.endOfWait(ctx, err, last)
		case fails:
			return t, err
		case rejoins:
			t.rejoin(err, l.by)
		case drops:
			t.drop()
			if errors.Is(err, driver.ErrBusy) {
				return nil, q.e.busy()
			}
			changed, wrong := as.after(ctx, l, err)
			if wrong != nil {
				return nil, wrong
			}
			if changed {
				t = nil
				continue
			}
		}
		if verdict != retries {
			t = nil
		} else if try {
			return t, Unavailable(err)
		}
		if last == nil || t != nil { // that a ticket has gone explains less than why a try failed
			last = Tried(err)
		}
		if t != nil {
			l.by.Retries(err)
		}
		if b.Sleep(ctx) != nil {
			return t, q.e.Because(ctx, last)
		}
	}
}

// verdict is what a try comes to.
type verdict uint8

const (
	obtained verdict = iota
	retries          // the same ticket is tried again: a reply was lost, or the backend is away
	rejoins          // the ticket does not stand, or is of no use: another one stands at the end
	drops            // it was refused, and does not stand
	fails            // the next try would bring the same; the ticket may stand
	ended            // ctx has ended; the ticket may stand
)

func (t *ticket) classify(ctx context.Context, err error) verdict {
	switch {
	case err == nil:
		return obtained
	case errors.Is(err, ErrDeadlock), errors.Is(err, ErrClosed):
		return fails
	case ctx.Err() != nil:
		return ended
	case errors.Is(err, errLate), isSessionOver(err), IsGone(err):
		return rejoins
	case errors.Is(err, driver.ErrMismatch), errors.Is(err, driver.ErrBusy):
		return drops
	case driver.IsPermanent(err):
		return fails
	}
	return retries
}

// attempt is reach, in a wait that can be found to be a deadlock.
func (t *ticket) attempt(ctx context.Context, by Holder) error {
	if t.req.NoWait {
		return t.closedOr(t.reach(ctx, by))
	}
	step, over := by.BeginWait(ctx, t.req.ID)
	defer over()
	err := t.reach(step, by)
	if why := context.Cause(step); err != nil && errors.Is(why, ErrDeadlock) && ctx.Err() == nil {
		return why
	}
	return t.closedOr(err)
}

// closedOr is the error of a try; ErrClosed if the client is closed meanwhile.
func (t *ticket) closedOr(err error) error {
	if err != nil && t.e.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// endOfWait is why a wait has ended with ctx.
func (t *ticket) endOfWait(ctx context.Context, err, last error) error {
	switch stands := t.stands(); {
	case !errors.Is(err, ctx.Err()):
		last = err
	case last == nil && t.sent && !stands:
		return Unanswered(ctx, err)
	case last == nil || stands:
		_, last = t.e.Paused() // it waited in line, whatever was said before that, or had no time left to ask
	}
	return t.e.Because(ctx, last)
}

// wanted is what tickets are joined with.
type wanted struct {
	r           *Request
	unexplained int
}

// mostUnexplained is how often in a row a ticket is joined anew that was refused as of another kind or
// capacity, while the queue shows neither: it has just changed, or some members of a quorum refuse what the
// others do not.
const mostUnexplained = 8

// after is what follows a mismatch: another try, with the number that is set or with its own again (changed), or an
// error.
func (w *wanted) after(ctx context.Context, l *Lease, mismatch error) (changed bool, err error) {
	capacity, set, err := l.by.CapacitySet(ctx)
	if err != nil {
		return false, err
	}
	if w.unexplained++; set {
		w.unexplained = 0
	}
	switch {
	case capacity == 0 || w.unexplained > mostUnexplained:
		return false, mismatch
	case capacity == w.r.Capacity:
		return false, nil
	}
	r := *l.r
	r.Capacity, w.r = capacity, &r
	return true, nil
}

// errLate: the news of a grant came so late that it may have ended.
var errLate = errors.New("the grant came too late")

// rejoin gives up a ticket in whose place another one is to stand.
func (t *ticket) rejoin(err error, by Holder) {
	if isSessionOver(err) {
		t.sess.over(err)
	}
	var was ticketState
	switch {
	case errors.Is(err, errLate):
		t.abandon()
		return
	case t.req.Hold > 0 && t.sent && !IsGone(err): // a grant of a fixed time does not end with the session
		was = t.abandon()
	default:
		was = t.drop()
	}
	if was == ticketQueued {
		by.Rejoined(err)
	}
}

// reach joins, unless the ticket is known to be queued, and waits.
func (t *ticket) reach(ctx context.Context, by Holder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.q.mu.Lock()
	joining := t.state == ticketJoining
	if t.local != nil {
		t.local.asking = t
	}
	t.q.unlock()
	if joining {
		tk, err := t.joinInTurn(ctx, by)
		if err != nil {
			return err
		}
		if tk.Held {
			return t.take(ctx, tk)
		}
	}
	waits(by)
	tk, err := t.wait(ctx)
	if err != nil {
		return err
	}
	return t.take(ctx, tk)
}

// take takes a grant. One with little time left is to be renewed by a heartbeat first: what proves that a waiter stands
// is the last one, which may be old in a busy process, or after an outage, and the lease would be lost as soon as it is
// handed out. The ticket may be lost meanwhile.
func (t *ticket) take(ctx context.Context, tk driver.Ticket) error {
	renewed, err := t.hold(tk)
	if err != nil || renewed == nil {
		return err
	}
	select {
	case <-renewed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.sess.ctx.Done():
		return driver.ErrSession
	}
}

// joinInTurn joins when enough others of this client are not in line: see joins.
func (t *ticket) joinInTurn(ctx context.Context, by Holder) (driver.Ticket, error) {
	if t.sent || t.req.NoWait {
		return t.join(ctx)
	}
	slow, err := t.q.joins.begin(ctx, t.q, t, by)
	if err != nil {
		return driver.Ticket{}, err
	}
	if slow {
		defer t.q.joins.restAfter(t.q, time.Now())
	}
	return t.join(ctx)
}

func (t *ticket) join(ctx context.Context) (driver.Ticket, error) {
	call := t.bound(ctx, callTimeout(t.sess.ttl))
	defer call.Release()
	t.sent = true
	tk, err := t.sess.s.Join(call, t.req)
	t.req.Retry = true
	if err != nil || tk.Held {
		return tk, err
	}
	t.q.mu.Lock()
	defer t.q.unlock()
	t.queued(tk)
	return tk, nil
}

// wait returns when the ticket is held, or with the end of ctx or the session.
func (t *ticket) wait(ctx context.Context) (driver.Ticket, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.sess.ctx, func() { cancel(driver.ErrSession) })()
	tk, err := t.sess.s.Await(ctx, t.current())
	if err != nil && t.sess.ctx.Err() != nil {
		err = driver.ErrSession
	}
	return tk, err
}
