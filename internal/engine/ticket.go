package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
)

// ticket is a place in a queue of the backend, together with the local leases
// that it serves: one at a time if it is exclusive, many if it is shared.
type ticket struct {
	e    *Engine
	q    *queue
	name string
	sess *session
	req  driver.Request // Retry is of the goroutine that obtains the ticket
	sent bool           // a Join was sent; of the goroutine that obtains the ticket

	// Most tickets need no more than these, and are one allocation with them.
	calls  [2]bounded.Context
	called atomic.Int32 // how many of these are used
	one    [1]*Lease    // the room that leases begins in

	extending chan struct{} // holds a value while an Extend is under way

	// The rest is guarded by the mutex of the queue.
	prev, next *ticket // in the queue
	listed     bool
	writer     bool   // it is one of queue.writers
	came       uint64 // of queue.arrivals, if it is a writer's
	joins      bool   // queue.joins counts it

	line      *line       // hands it on inside the process; nil if it serves one lease
	state     ticketState // see state.go
	units     int64       // as requested, or what a Downgrade or KeepPermits has left
	confirmed int64       // the units that the backend has at most, as it has said
	tk        driver.Ticket
	deadline  driver.Instant // until when it is certainly held
	end       driver.Instant // until when the backend guarantees it
	since     driver.Instant // when this process learned of the grant
	grants    uint64         // leases that it has served
	keep      driver.Instant // until when AtLeast keeps others out
	atMost    time.Duration  // that it is held; 0: for as long as it is renewed
	live      int            // grants whose leases have not all been released, lost ones too
	leases    []*Lease       // those that are held
	bodies    int            // functions of Do that run under it
	wanted    bool           // another ticket waits behind it
	revoked   bool
	asked     chan struct{}   // of a record: has a value once somebody asks for it; else nil
	recorded  int             // leases that overrun, for which a record is kept
	unrecord  func()          // ends the record
	doubt     error           // why the last renewal failed, if it did
	heard     driver.Instant  // when the last answer came that the ticket stands
	left      <-chan struct{} // closed when it has left, if it stood and was abandoned
}

// tokenBits is what the token of a local grant adds to that of its ticket.
const (
	TokenBits = 12
	MaxGrants = 1 << TokenBits
)

func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// newTicket makes a ticket of the current session with a new identity.
func (q *queue) newTicket(ctx context.Context, r *Request, by Holder, n *line, try bool) (*ticket, error) {
	t := q.ticketAs(r, NewID())
	t.line, t.req.NoWait = n, try
	return t, t.enroll(ctx, by)
}

func (q *queue) ticketAs(r *Request, id string) *ticket {
	t := &ticket{e: q.e, q: q, name: r.Name, units: r.Units, confirmed: r.Units, req: driver.Request{
		ID: id, Queue: r.Queue, Kind: r.Kind, Units: r.Units, Capacity: r.Capacity,
		Hold: r.Hold, ReportDeath: r.ReportDeath,
	}}
	if r.Note != "" {
		t.req.Note = []byte(r.Note)
	}
	t.atMost, t.leases = r.AtMost, t.one[:0]
	if r.Hold > 0 {
		t.extending = make(chan struct{}, 1)
	}
	t.tk = driver.Ticket{ID: id, Queue: r.Queue}
	return t
}

// enroll lists the ticket in its queue, as one of the current session.
func (t *ticket) enroll(ctx context.Context, by Holder) error {
	for {
		sess, err := t.e.session(ctx, by)
		if err == nil {
			err = t.q.list(t, sess)
		}
		if !isSessionOver(err) {
			return err
		}
	}
}

func (t *ticket) unregister() {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.q.forget(t)
}

// obtain waits until it has a ticket that is held, beginning with t unless that
// is nil. Lost replies, an unreachable backend and sessions that die are
// overcome until ctx ends; with try it makes one try, another if its ticket came to
// nothing. The ticket that comes with an error may stand at the backend: obtain it
// again, or abandon it.
func (q *queue) obtain(ctx context.Context, l *Lease, n *line, t *ticket, try bool) (*ticket, error) {
	var b backoff.Backoff
	var last error
	r, unexplained := l.r, 0
	for {
		if t == nil {
			var err error
			if t, err = q.newTicket(ctx, r, l.by, n, try); err != nil {
				return nil, err
			}
		}
		step, over := ctx, nothing
		if !t.req.NoWait {
			step, over = l.by.BeginWait(ctx, t.req.ID)
		}
		err := t.reach(step, l.by)
		why := context.Cause(step)
		over()
		switch {
		case err == nil:
			return t, nil
		case errors.Is(why, ErrDeadlock) && ctx.Err() == nil:
			return t, why
		case q.e.ctx.Err() != nil:
			return t, ErrClosed
		case ctx.Err() != nil:
			switch stands := t.stands(); {
			case !errors.Is(err, ctx.Err()):
				last = err
			case last == nil && t.sent && !stands:
				return t, Unanswered(ctx)
			case last == nil || stands:
				_, last = q.e.Paused() // it waited in line, whatever was said before that, or had no time left to ask
			}
			return t, q.e.Because(ctx, last)
		case errors.Is(err, errLate):
			t.giveUpPlace()
			t = nil
		case isSessionOver(err):
			t.sess.over(err)
			fallthrough
		case IsGone(err):
			if t.outlive(err) == ticketQueued {
				l.by.Rejoined(err)
			}
			t = nil
		case errors.Is(err, driver.ErrMismatch):
			t.drop()
			capacity, set, unknown := l.by.CapacitySet(ctx)
			if unknown != nil {
				return nil, unknown
			}
			if unexplained++; set {
				unexplained = 0
			}
			if capacity == 0 || unexplained > mostUnexplained {
				return nil, err
			}
			t = nil
			if r.Capacity != capacity {
				as := *l.r
				as.Capacity, r = capacity, &as
				continue // with the number that is set, or with its own again
			}
		case errors.Is(err, driver.ErrBusy):
			t.drop()
			return nil, q.e.busy()
		case driver.IsPermanent(err):
			return t, err
		}
		if try && t != nil {
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

// mostUnexplained is how often in a row a ticket is joined anew that was refused as of another kind or
// capacity, while the queue shows neither: it has just changed, or some members of a quorum refuse what the
// others do not.
const mostUnexplained = 8

// errLate: the news of a grant came so late that it may have ended.
var errLate = errors.New("the grant came too late")

// outlive is drop, but gives the ticket back if it may have been granted a fixed
// time that nobody was told of: that does not end with the session.
func (t *ticket) outlive(err error) (was ticketState) {
	if t.req.Hold == 0 || !t.sent || IsGone(err) {
		return t.drop()
	}
	return t.giveUpPlace()
}

// drop forgets the ticket and returns what it was.
func (t *ticket) drop() (was ticketState) {
	t.q.mu.Lock()
	defer t.q.unlock()
	was = t.state
	if t.take() {
		t.q.forget(t)
	}
	return was
}

// reach joins, unless the ticket is known to be queued, and waits.
func (t *ticket) reach(ctx context.Context, by Holder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.q.mu.Lock()
	joining := t.state == ticketJoining
	if t.line != nil {
		t.line.asking = t
	}
	t.q.unlock()
	if joining {
		answered := nothing
		if !t.sent && !t.req.NoWait {
			var err error
			if answered, err = t.q.joins.begin(ctx, t.q, t, by); err != nil {
				return err
			}
		}
		tk, err := t.join(ctx)
		answered()
		if err != nil {
			return err
		}
		if tk.Held {
			return t.hold(tk)
		}
	}
	waits(by)
	tk, err := t.wait(ctx)
	if err != nil {
		return err
	}
	return t.hold(tk)
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

// bound makes the context of a call for the ticket.
func (t *ticket) bound(ctx context.Context, limit time.Duration) *bounded.Context {
	if i := int(t.called.Add(1)) - 1; i < len(t.calls) {
		return t.calls[i].Begin(ctx, limit)
	}
	return bounded.New(ctx, limit)
}

// stands reports whether the backend has said that the ticket is in line.
func (t *ticket) stands() bool {
	t.q.mu.Lock()
	defer t.q.unlock()
	return t.state == ticketQueued
}

func (t *ticket) current() driver.Ticket {
	t.q.mu.Lock()
	defer t.q.unlock()
	return t.tk
}

// hold takes note of the grant: errLate if it is so old that the ticket may
// have ended by now.
func (t *ticket) hold(tk driver.Ticket) error {
	ttl, spare := t.sess.ttl, t.sess.margin
	if t.req.Hold > 0 {
		ttl, spare = t.req.Hold, margin(t.req.Hold)
	}
	released.Load()
	now := t.e.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	switch end := tk.Proof.Add(ttl); {
	case t.e.closing.Load():
		return ErrClosed
	case t.sess.ended.Load() && t.req.Hold == 0:
		return driver.ErrSession
	case end.Add(-spare) <= now:
		return errLate
	case !t.held(tk):
		return driver.ErrGone
	default:
		t.q.joins.end(t)
		t.since, t.heard, t.end = now, now, end
		t.deadline = t.most(end.Add(-spare))
		t.e.reaper.lookAt(t.deadline)
		if !t.fixed() {
			t.sess.hasten(end)
		}
		return nil
	}
}

// most is the deadline that another one becomes by AtMost.
func (t *ticket) most(deadline driver.Instant) driver.Instant {
	if t.atMost > 0 {
		return min(deadline, t.since.Add(t.atMost))
	}
	return deadline
}

// fixed reports a held ticket that ends by itself.
func (t *ticket) fixed() bool { return t.req.Hold > 0 && t.state == ticketHeld }

// renewable reports whether a renewal of session n is to name the ticket. One
// whose Join has no answer yet is not named: the backend may not know it, and
// its absence would prove nothing. One with a fixed end is named, whatever
// session it is of, to hear whether somebody else has ended it.
func (t *ticket) renewable(n *session) bool {
	return t.fixed() || t.sess == n && (t.state == ticketQueued || t.state == ticketHeld)
}

// die loses the ticket with its session n, unless it has a fixed end.
func (t *ticket) die(n *session, why error) {
	if t.sess == n && !t.fixed() {
		t.lose(why, false)
	}
}
