package interlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// ticket is a place in a queue of the backend, together with the local leases
// that it serves: one at a time if it is exclusive, many if it is shared.
//
// Locks are taken in the order line.mu, Client.mu, ticket.mu.
type ticket struct {
	c    *Client
	name string
	line *line // hands it on inside the process; nil if it serves one lease; guarded by mu

	idle      bool           // kept without a lease; guarded by line.mu
	idleSince driver.Instant // guarded by line.mu

	// Only the goroutine that obtains the ticket uses these.
	req  driver.Request
	sess *session
	sent bool // a Join was sent: the backend may know it

	mu       sync.Mutex
	state    ticketState
	tk       driver.Ticket
	deadline driver.Instant // until when it is certainly held
	end      driver.Instant // until when the backend guarantees it
	since    driver.Instant // when this process learned of the grant
	grants   uint64         // leases that it has served
	live     int            // grants that are not over
	unacked  int            // leases that were lost and not yet released
	wanted   bool
	revoked  bool
	doubt    bool
	leases   []*Lease
}

type ticketState uint8

const (
	ticketJoining ticketState = iota // nobody knows yet whether the backend has it
	ticketQueued
	ticketHeld
	ticketLost // by its deadline, or evicted; the backend may have it until end
	ticketLeft
)

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

func (l *Lock) newTicket(n *line, try bool) *ticket {
	return &ticket{c: l.c, name: l.name, line: n, req: driver.Request{
		Queue: l.queue, Kind: l.kind, Units: l.units, Capacity: l.capacity,
		NoWait: try, Hold: l.cfg.hold, Robust: l.cfg.robust, Note: []byte(l.cfg.note),
	}}
}

func (c *Client) ticket(id string) *ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tickets[id]
}

// begin gives the ticket a new identity in the session.
func (t *ticket) begin(s *session) error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.c.closing {
		return ErrClosed
	}
	delete(t.c.tickets, t.req.ID)
	t.req.ID, t.req.Retry = newID(), false
	t.sess, t.sent = s, false
	t.mu.Lock()
	t.state = ticketJoining
	t.tk = driver.Ticket{ID: t.req.ID, Queue: t.req.Queue}
	t.mu.Unlock()
	t.c.tickets[t.req.ID] = t
	return nil
}

func (t *ticket) unregister() {
	t.c.mu.Lock()
	delete(t.c.tickets, t.req.ID)
	t.c.mu.Unlock()
}

// obtain waits until the ticket is held. Lost replies, an unreachable backend
// and sessions that die are overcome until ctx ends; a ticket that does not
// wait makes one try. After a failure the ticket may be queued still: obtain
// again, or abandon it.
func (t *ticket) obtain(ctx context.Context) error {
	var b backoff
	var last error
	for {
		if ctx.Err() != nil {
			return because(ctx, last)
		}
		sess, err := t.c.session(ctx)
		if err != nil {
			return err
		}
		tk, err := t.attempt(ctx, sess)
		if err == nil {
			ok, err := t.hold(tk)
			if err != nil || ok {
				return err
			}
			t.abandon() // the news of the grant came too late
			err = driver.ErrGone
		}
		switch {
		case t.c.ctx.Err() != nil || errors.Is(err, ErrClosed):
			return ErrClosed
		case ctx.Err() != nil:
			return because(ctx, last)
		case isSessionOver(err):
			sess.over(err)
			fallthrough
		case errors.Is(err, driver.ErrGone):
			t.rejoin(ctx, err)
		case driver.IsPermanent(err):
			return err
		}
		if t.req.NoWait {
			return err
		}
		last = err
		if b.sleep(ctx) != nil {
			return because(ctx, last)
		}
	}
}

// rejoin makes the next attempt a new ticket.
func (t *ticket) rejoin(ctx context.Context, err error) {
	t.mu.Lock()
	queued := t.state == ticketQueued
	t.mu.Unlock()
	t.unregister()
	t.sess = nil
	if queued {
		t.c.emit(ctx, Event{Kind: EventRejoined, Name: t.name, Err: err})
	}
}

// attempt joins, unless the ticket is known to be queued, and waits.
func (t *ticket) attempt(ctx context.Context, sess *session) (driver.Ticket, error) {
	if t.sess != sess {
		if err := t.begin(sess); err != nil {
			return driver.Ticket{}, err
		}
	}
	t.mu.Lock()
	state, tk := t.state, t.tk
	t.mu.Unlock()
	if state == ticketJoining {
		joined, err := t.join(ctx)
		if err != nil || joined.Held {
			return joined, err
		}
		tk = joined
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(sess.ctx, func() { cancel(context.Cause(sess.ctx)) })()
	got, err := sess.s.Await(ctx, tk)
	if err != nil && sess.ctx.Err() != nil {
		err = errSessionOver
	}
	return got, err
}

func (t *ticket) join(ctx context.Context) (driver.Ticket, error) {
	ctx, cancel := t.c.callContext(ctx)
	defer cancel()
	t.sent = true
	tk, err := t.sess.s.Join(ctx, t.req)
	t.req.Retry = true
	if err != nil || tk.Held {
		return tk, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == ticketJoining {
		t.state, t.tk = ticketQueued, tk
	}
	return tk, nil
}

// hold takes note of the grant. It reports false if the grant is so old that
// the ticket may have ended by now.
func (t *ticket) hold(tk driver.Ticket) (bool, error) {
	ttl, spare := t.sess.ttl, t.sess.margin
	if t.req.Hold > 0 {
		ttl, spare = t.req.Hold, margin(t.req.Hold)
	}
	now := t.c.d.Now()
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c.closing || t.state == ticketLeft {
		return false, ErrClosed
	}
	t.state, t.tk, t.since = ticketHeld, tk, now
	t.end = tk.Proof.Add(ttl)
	t.deadline = t.end.Add(-spare)
	if t.deadline <= now {
		return false, nil
	}
	t.c.watchDeadline(t.deadline)
	return true, nil
}

// abandon gives up a ticket that was not obtained, or cannot be used. It
// leaves in the background, with a context of its own.
func (t *ticket) abandon() {
	t.mu.Lock()
	was, tk := t.state, t.tk
	t.state = ticketLeft
	t.mu.Unlock()
	t.unregister()
	sess, sent := t.sess, t.sent
	if sess == nil || !sent || was == ticketLeft {
		return
	}
	t.c.background(func() { giveBack(sess, tk) })
}

// giveBack repeats Leave until it is confirmed, or the ticket has ended.
func giveBack(sess *session, tk driver.Ticket) {
	ctx, cancel := context.WithTimeout(sess.ctx, sess.ttl)
	defer cancel()
	var b backoff
	for {
		call, cancel := context.WithTimeout(ctx, sess.callTimeout())
		err := sess.s.Leave(call, tk, true)
		cancel()
		if err == nil || driver.IsPermanent(err) || b.sleep(ctx) != nil {
			return
		}
	}
}

// background runs f beside the caller; Close waits for it. A client that is
// closed runs nothing more: the end of its session settles what is left.
func (c *Client) background(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.tasks.Go(f)
}

// leave ends the backend's side. It is repeated until it is confirmed or the
// lease has run out.
func (t *ticket) leave(clean bool) error {
	return t.part(func(ctx context.Context, s driver.Session, tk driver.Ticket) error {
		return s.Leave(ctx, tk, clean)
	})
}

// leaveAfter is leave, but keeps others out for d.
func (t *ticket) leaveAfter(d time.Duration) error {
	return t.part(func(ctx context.Context, s driver.Session, tk driver.Ticket) error {
		return s.Keep(ctx, tk, d)
	})
}

// part takes the ticket out of the client's care by the given call.
func (t *ticket) part(call func(context.Context, driver.Session, driver.Ticket) error) error {
	t.mu.Lock()
	if t.state != ticketHeld {
		t.mu.Unlock()
		return ErrLost
	}
	t.state = ticketLeft
	tk, deadline := t.tk, t.deadline
	var after []func()
	for _, l := range t.leases { // adopted: what one releases, all lose
		after = append(after, l.end(ErrLost))
	}
	t.leases, t.live = nil, 0
	t.mu.Unlock()
	for _, f := range after {
		f()
	}
	defer t.unregister()
	var b backoff
	for first := true; ; first = false {
		left := deadline.Sub(t.c.d.Now())
		if left <= 0 {
			return ErrLost
		}
		err := t.exchange(context.Background(), min(left, t.sess.callTimeout()), func(ctx context.Context, s driver.Session) error {
			return call(ctx, s, tk)
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, driver.ErrGone):
			if first {
				return ErrLost
			}
			return nil // an earlier call took effect, its reply was lost
		case isSessionOver(err):
			if t.req.Hold == 0 {
				return ErrLost
			}
		case driver.IsPermanent(err):
			return err
		}
		if err := b.sleep(context.Background()); err != nil {
			return err
		}
	}
}

// exchange makes one call in the ticket's session, or in the current one if
// the ticket outlives sessions.
func (t *ticket) exchange(ctx context.Context, limit time.Duration, call func(context.Context, driver.Session) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sess := t.sess
	if t.req.Hold > 0 {
		var err error
		if sess, err = t.c.session(ctx); err != nil {
			return err
		}
	}
	return call(ctx, sess.s)
}

// fixed reports a held ticket that ends by itself. t.mu is held.
func (t *ticket) fixed() bool { return t.req.Hold > 0 && t.state == ticketHeld }

// renewable returns the ticket if a renewal of session n is to name it. A
// ticket whose Join has no answer yet is not named: the backend may not know
// it, and its absence would prove nothing.
func (t *ticket) renewable(n *session) (driver.Ticket, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tk, t.sess == n && !t.fixed() && (t.state == ticketQueued || t.state == ticketHeld)
}

func (t *ticket) diesWith(n *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sess == n && !t.fixed()
}

// due returns when the reaper has to act, and whether it then only forgets the
// ticket.
func (t *ticket) due() (at driver.Instant, forget bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.state {
	case ticketHeld:
		return t.deadline, false
	case ticketLost:
		return t.end, true
	}
	return math.MaxInt64, false
}

func (t *ticket) extend(proof driver.Instant, ttl, spare time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == ticketHeld {
		t.end = max(t.end, proof.Add(ttl))
		t.deadline = t.end.Add(-spare)
		t.doubt = false
	}
}

func (t *ticket) doubted(err error) {
	t.mu.Lock()
	news := t.state == ticketHeld && !t.doubt
	t.doubt = t.doubt || news
	token := t.tk.Token << tokenBits
	t.mu.Unlock()
	if news {
		t.c.emit(context.Background(), Event{Kind: EventInDoubt, Name: t.name, Token: token, Err: err})
	}
}

// expire loses the ticket if its deadline has passed.
func (t *ticket) expire() {
	now := t.c.d.Now()
	t.mu.Lock()
	after := t.judge(now)
	t.mu.Unlock()
	after()
}

// judge is expire for callers that hold t.mu and call the result after
// unlocking.
func (t *ticket) judge(now driver.Instant) func() {
	if t.state != ticketHeld || now < t.deadline {
		return func() {}
	}
	return t.lose(errors.New("it was not renewed in time"))
}

// gone loses a ticket that the backend does not have any more.
func (t *ticket) gone(why error) {
	t.mu.Lock()
	if t.state != ticketHeld {
		t.mu.Unlock()
		return
	}
	after := t.lose(why)
	t.state = ticketLeft
	t.mu.Unlock()
	t.unregister()
	after()
}

// evict loses a ticket that the backend still has: it passes on when every
// lease has been released, or its time has run out.
func (t *ticket) evict() {
	t.mu.Lock()
	if t.state != ticketHeld {
		t.mu.Unlock()
		return
	}
	after := t.lose(ErrEvicted)
	idle := t.unacked == 0
	t.mu.Unlock()
	after()
	if idle {
		t.acknowledge()
	}
}

// lose ends all leases. t.mu is held; the caller calls the result after
// unlocking.
func (t *ticket) lose(why error) func() {
	t.state = ticketLost
	leases := t.leases
	t.leases, t.live, t.unacked = nil, 0, len(leases)
	var after []func()
	for _, l := range leases {
		after = append(after, l.end(fmt.Errorf("%w: %w", ErrLost, why)))
	}
	return func() {
		for _, f := range after {
			f()
		}
		if n := t.inLine(); n != nil {
			n.lost(t)
		}
		for _, l := range leases {
			t.c.emit(l.ctx, Event{Kind: EventLost, Name: t.name, Token: l.Token(), Err: why})
		}
	}
}

// acknowledge gives a lost ticket back to the backend: nobody works under it
// any more. What was done under it may be half done.
func (t *ticket) acknowledge() {
	t.mu.Lock()
	lost := t.state == ticketLost
	tk := t.tk
	if lost {
		t.state = ticketLeft
	}
	t.mu.Unlock()
	if !lost {
		return
	}
	t.c.background(func() {
		defer t.unregister()
		_ = t.exchange(context.Background(), t.sess.callTimeout(), func(ctx context.Context, s driver.Session) error {
			return s.Leave(ctx, tk, false)
		}) // else its time runs out
	})
}

func (t *ticket) want() {
	t.mu.Lock()
	t.wanted = true
	t.mu.Unlock()
	t.recall(0)
}

// recall gives the ticket back if it has been idle for so long.
func (t *ticket) recall(idle time.Duration) {
	if n := t.inLine(); n != nil {
		n.recall(t, idle)
	}
}

func (t *ticket) inLine() *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.line
}

func (t *ticket) revoke() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoked = true
	for _, l := range t.leases {
		l.signalRevoked()
	}
}
