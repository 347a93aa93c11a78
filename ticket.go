package interlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// ticket is a place in a queue of the backend, together with the local leases
// that it serves: one at a time if it is exclusive, many if it is shared.
//
// Locks are taken in the order line.mu, Client.mu, ticket.mu, and none is held
// during a call of the backend or of the user.
type ticket struct {
	c      *Client
	name   string
	sess   *session
	req    driver.Request // Retry is of the goroutine that obtains the ticket
	sent   bool           // a Join was sent; of the goroutine that obtains the ticket
	writer bool           // one of Client.writers; guarded by Client.mu

	crowd atomic.Bool // it is one of Client.crowds

	// Most tickets need no more than these, and are one allocation with them.
	calls  [2]bounded
	called atomic.Int32 // how many of these are used
	first  single       // its first lease
	one    [1]*single   // the room that leases begins in

	extending chan struct{} // holds a value while an Extend is under way

	came uint64 // of Client.arrivals, if it is one of them

	mu        sync.Mutex
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
	leases    []*single      // those that are held
	bodies    int            // functions of Do that run under it
	wanted    bool           // another ticket waits behind it
	revoked   bool
	winding   bool            // Close has ended the bound contexts
	asked     chan struct{}   // of a record: has a value once somebody asks for it; else nil
	recorded  int             // leases that overrun, for which a record is kept
	unrecord  func()          // ends the record
	doubt     error           // why the last renewal failed, if it did
	heard     driver.Instant  // when the last answer came that the ticket stands
	left      <-chan struct{} // closed when it has left, if it stood and was abandoned
}

// tokenBits is what the token of a local grant adds to that of its ticket.
const (
	tokenBits = 12
	maxGrants = 1 << tokenBits
)

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// newTicket makes a ticket of the current session with a new identity.
func (l *Lock) newTicket(ctx context.Context, n *line, try bool) (*ticket, error) {
	t := l.ticketAs(newID())
	t.line, t.req.NoWait = n, try
	return t, t.enroll(ctx)
}

func (l *Lock) ticketAs(id string) *ticket {
	t := &ticket{c: l.c, name: l.name, units: l.units, confirmed: l.units, req: driver.Request{
		ID: id, Queue: l.queue, Kind: l.kind, Units: l.units, Capacity: l.capacity,
		Hold: l.cfg.hold, ReportDeath: l.cfg.reportDeath,
	}}
	if l.cfg.note != "" {
		t.req.Note = []byte(l.cfg.note)
	}
	t.atMost, t.leases = l.cfg.atMost, t.one[:0]
	if l.cfg.hold > 0 {
		t.extending = make(chan struct{}, 1)
	}
	t.tk = driver.Ticket{ID: id, Queue: l.queue}
	return t
}

// errTaken: the client has a ticket with this ID.
var errTaken = errors.New("the ticket is known")

// enroll makes the ticket known to the client, as one of the current session.
func (t *ticket) enroll(ctx context.Context) error {
	c := t.c
	for {
		sess, err := c.session(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		ok, taken := c.sess == sess, c.tickets[t.req.ID] != nil
		if ok && !taken {
			t.register(sess)
		}
		c.mu.Unlock()
		switch {
		case taken:
			return errTaken
		case ok:
			return nil
		}
	}
}

// register is called with Client.mu held.
func (t *ticket) register(sess *session) {
	t.sess = sess
	t.c.tickets[t.req.ID] = t
	if t.req.Kind == driver.RWMutex && t.req.Units == t.req.Capacity {
		t.writer, t.came = true, t.c.arrivals.Add(1)
		t.c.writers[t.req.Queue] = append(t.c.writers[t.req.Queue], t)
	}
}

func (t *ticket) unregister() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.forget()
}

// forget is unregister with Client.mu held.
func (t *ticket) forget() {
	if t.c.tickets[t.req.ID] != t {
		return
	}
	delete(t.c.tickets, t.req.ID)
	t.isNoneOfACrowd()
	t.uncount()
	t.c.hush(len(t.c.tickets))
}

// uncount notes that the ticket keeps readers out no more. Client.mu is held.
func (t *ticket) uncount() {
	if !t.writer {
		return
	}
	t.writer = false
	left := slices.DeleteFunc(t.c.writers[t.req.Queue], func(w *ticket) bool { return w == t })
	t.c.writers[t.req.Queue] = left
	if len(left) == 0 {
		delete(t.c.writers, t.req.Queue)
	}
}

func (c *Client) ticket(id string) *ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tickets[id]
}

// obtain waits until it has a ticket that is held, beginning with t unless that
// is nil. Lost replies, an unreachable backend and sessions that die are
// overcome until ctx ends; with try it makes one try, another if its ticket came to
// nothing. The ticket that comes with an error may stand at the backend: obtain it
// again, or abandon it.
func (l *Lock) obtain(ctx context.Context, n *line, t *ticket, try bool) (*ticket, error) {
	var b backoff.Backoff
	var last error
	own, unexplained := l, 0
	for {
		if t == nil {
			var err error
			if t, err = l.newTicket(ctx, n, try); err != nil {
				return nil, err
			}
		}
		n.asks(t)
		step, over := l.beginWait(ctx, t)
		err := t.reach(step)
		why := context.Cause(step)
		over()
		switch {
		case err == nil:
			return t, nil
		case errors.Is(why, ErrDeadlock) && ctx.Err() == nil:
			return t, why
		case l.c.ctx.Err() != nil:
			return t, ErrClosed
		case ctx.Err() != nil:
			switch stands := t.stands(); {
			case !errors.Is(err, ctx.Err()):
				last = err
			case last == nil && t.sent && !stands:
				return t, unanswered(ctx)
			case last == nil || stands:
				_, last = l.c.paused() // it waited in line, whatever was said before that, or had no time left to ask
			}
			return t, l.c.because(ctx, last)
		case errors.Is(err, errLate):
			t.abandon()
			t = nil
		case isSessionOver(err):
			t.sess.over(err)
			fallthrough
		case isGone(err):
			t.rejoin(ctx, err)
			t = nil
		case errors.Is(err, ErrMismatch):
			t.drop()
			as, set, unknown := own.asSet(ctx)
			if unknown != nil {
				return nil, unknown
			}
			if unexplained++; set {
				unexplained = 0
			}
			if as == nil || unexplained > mostUnexplained {
				return nil, err
			}
			t = nil
			if l.capacity != as.capacity {
				l = as
				continue // with the number that is set, or with its own again
			}
		case errors.Is(err, ErrBusy):
			t.drop()
			return nil, l.c.busy()
		case driver.IsPermanent(err):
			return t, err
		}
		if try && t != nil {
			return t, &unavailable{[]error{err}, err.Error()}
		}
		if last == nil || t != nil { // that a ticket has gone explains less than why a try failed
			last = tried(err)
		}
		if t != nil {
			callerOf(ctx).retries(err)
		}
		if b.Sleep(ctx) != nil {
			return t, l.c.because(ctx, last)
		}
	}
}

// mostUnexplained is how often in a row a ticket is joined anew that was refused as of another kind or
// capacity, while the queue shows neither: it has just changed, or some members of a quorum refuse what the
// others do not.
const mostUnexplained = 8

// errLate: the news of a grant came so late that it may have ended.
var errLate = errors.New("the grant came too late")

// rejoin forgets a ticket that does not stand any more.
func (t *ticket) rejoin(ctx context.Context, err error) {
	if t.outlive(err) == ticketQueued {
		callerOf(ctx).emit(Event{Kind: EventRejoined, Err: err})
	}
}

// outlive is drop, but gives the ticket back if it may have been granted a fixed
// time that nobody was told of: that does not end with the session.
func (t *ticket) outlive(err error) (was ticketState) {
	if t.req.Hold == 0 || !t.sent || isGone(err) {
		return t.drop()
	}
	return t.abandon()
}

// drop forgets the ticket and returns what it was.
func (t *ticket) drop() (was ticketState) {
	t.mu.Lock()
	was = t.state
	taken := t.take()
	t.mu.Unlock()
	if taken {
		t.unregister()
	}
	return was
}

// reach joins, unless the ticket is known to be queued, and waits.
func (t *ticket) reach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	joining := t.state == ticketJoining
	t.mu.Unlock()
	if joining {
		came, err := t.come(ctx)
		if err != nil {
			return err
		}
		tk, err := t.join(ctx)
		came()
		if err != nil {
			return err
		}
		if tk.Held {
			return t.hold(tk)
		}
	}
	t.c.waits(ctx)
	tk, err := t.wait(ctx)
	if err != nil {
		return err
	}
	return t.hold(tk)
}

// come waits until the Join may be sent, if many others wait and it may wait, too.
func (t *ticket) come(ctx context.Context) (came func(), err error) {
	if t.sent || t.req.NoWait {
		return nothing, nil
	}
	came, err = t.c.crowds.come(ctx, t.c.ctx, t.req.Queue)
	if err == nil {
		t.crowd.Store(true)
	}
	return came, err
}

// isNoneOfACrowd is called when the ticket is held, or has left.
func (t *ticket) isNoneOfACrowd() {
	if t.crowd.CompareAndSwap(true, false) {
		t.c.crowds.gone(t.req.Queue)
	}
}

func (t *ticket) join(ctx context.Context) (driver.Ticket, error) {
	call := t.bound(ctx, callTimeout(t.sess.ttl))
	defer call.release()
	t.sent = true
	tk, err := t.sess.s.Join(call, t.req)
	t.req.Retry = true
	if err != nil || tk.Held {
		return tk, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
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
func (t *ticket) bound(ctx context.Context, limit time.Duration) *bounded {
	if i := int(t.called.Add(1)) - 1; i < len(t.calls) {
		return t.calls[i].begin(ctx, limit)
	}
	return bound(ctx, limit)
}

// stands reports whether the backend has said that the ticket is in line.
func (t *ticket) stands() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == ticketQueued
}

// unanswered reports whether the backend has said nothing of the ticket yet.
func (t *ticket) unanswered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == ticketJoining
}

func (t *ticket) current() driver.Ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
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
	now := t.c.d.Now()
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch end := tk.Proof.Add(ttl); {
	case t.c.closing:
		return ErrClosed
	case t.sess.ended && t.req.Hold == 0:
		return driver.ErrSession
	case end.Add(-spare) <= now:
		return errLate
	case !t.held(tk):
		return driver.ErrGone
	default:
		t.isNoneOfACrowd()
		t.since, t.heard, t.end = now, now, end
		t.deadline = t.most(end.Add(-spare))
		t.c.lookAt(t.deadline)
		if !t.fixed() {
			t.sess.hasten(end)
		}
		return nil
	}
}

// most is the deadline that another one becomes by AtMost. t.mu is held.
func (t *ticket) most(deadline driver.Instant) driver.Instant {
	if t.atMost > 0 {
		return min(deadline, t.since.Add(t.atMost))
	}
	return deadline
}

// fixed reports a held ticket that ends by itself. t.mu is held.
func (t *ticket) fixed() bool { return t.req.Hold > 0 && t.state == ticketHeld }

// renewable reports whether a renewal of session n is to name the ticket. One
// whose Join has no answer yet is not named: the backend may not know it, and
// its absence would prove nothing. One with a fixed end is named, whatever
// session it is of, to hear whether somebody else has ended it.
func (t *ticket) renewable(n *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fixed() || t.sess == n && (t.state == ticketQueued || t.state == ticketHeld)
}

// die loses the ticket with its session n, unless it has a fixed end.
func (t *ticket) die(n *session, why error) {
	t.mu.Lock()
	after := nothing
	if t.sess == n && !t.fixed() {
		after = t.lose(why, false)
	}
	t.mu.Unlock()
	after()
}
