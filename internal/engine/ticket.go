package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bounded"
)

// ticket is a place in a queue of the backend, together with the local leases that it serves: one at a time if it is
// exclusive, many if it is shared. What can follow what in its life is the table of machine.go.
type ticket struct {
	e    *Engine
	q    *queue
	r    *Request // that it is for
	sess *session
	req  driver.Request // Retry is of the goroutine that obtains the ticket
	sent bool           // a Join was sent; of the goroutine that obtains the ticket
	room

	// The rest is guarded by the mutex of the queue.
	state ticketState
	tk    driver.Ticket
	local *localQueue // hands it on inside the process; nil if it serves one lease
	placed
	term
	turns
	size
	recording
	wanted  bool // another ticket waits behind it
	revoked bool
	left    <-chan struct{} // closed when it has left, if it stood and was abandoned
}

// room is what most tickets need no more of: one allocation with them.
type room struct {
	calls  [2]bounded.Context
	called atomic.Int32 // how many of these are used
	one    [1]*Lease    // leases begins there
}

// placed is where the queue has the ticket.
type placed struct {
	place  node[ticket]
	writer bool   // it is one of queue.writers
	came   uint64 // of queue.arrivals, if it is a writer's
	joins  bool   // queue.joins counts it
}

// term is for how long the ticket is held.
type term struct {
	deadline  driver.Instant // until when it is certainly held
	end       driver.Instant // until when the backend guarantees it
	since     driver.Instant // when this process learned of the grant
	heard     driver.Instant // when the last answer came that the ticket stands
	doubt     error          // why the last renewal failed, if it did
	extending chan struct{}  // holds a value while an Extend is under way; nil if there can be none
	renewed   chan struct{}  // closed when a heartbeat moves end, or the ticket is lost; nil: none waits for that
}

// turns are the leases that the ticket serves.
type turns struct {
	grants uint64         // that there were
	live   int            // grants whose leases have not all been released, lost ones too
	leases []*Lease       // that are held
	bodies int            // functions of Do that run under them
	keep   driver.Instant // until when AtLeast keeps others out
}

// size is how much of the capacity the ticket takes.
type size struct {
	units     int64 // as requested, or what a Downgrade or KeepPermits has left
	confirmed int64 // what the backend has at most, as it has said
}

// TokenBits are what the token of a local grant adds to that of its ticket.
const (
	TokenBits = 12
	MaxGrants = 1 << TokenBits
)

// NewID is an identity at random. Many are made at once: each would be an allocation, and a call of the system.
func NewID() string {
	s := spareIDs.Get().(*string)
	if *s == "" {
		var b [16 * idLength / 2]byte
		_, _ = rand.Read(b[:]) // never fails
		*s = hex.EncodeToString(b[:])
	}
	id := (*s)[:idLength]
	*s = (*s)[idLength:]
	spareIDs.Put(s)
	return id
}

const idLength = 32

var spareIDs = sync.Pool{New: func() any { return new(string) }}

// newTicket makes a ticket of the current session with a new identity.
func (q *queue) newTicket(ctx context.Context, r *Request, by Holder, n *localQueue, try bool) (*ticket, error) {
	t := q.ticketAs(r, NewID())
	t.local, t.req.NoWait = n, try
	return t, t.enroll(ctx, by)
}

func (q *queue) ticketAs(r *Request, id string) *ticket {
	t := &ticket{e: q.e, q: q, r: r, size: size{r.Units, r.Units}, req: driver.Request{
		ID: id, Queue: r.Queue, Kind: r.Kind, Units: r.Units, Capacity: r.Capacity,
		Hold: r.Hold, ReportDeath: r.ReportDeath,
	}}
	if r.Note != "" {
		t.req.Note = []byte(r.Note)
	}
	t.leases = t.one[:0]
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
		if err != nil {
			return err // which may say that the last session is over
		}
		if err := t.q.list(t, sess); !isSessionOver(err) {
			return err
		}
	}
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

// least is the part of the TTL that a lease has left when it is handed out. With less, a heartbeat was missed.
const least = 3

// hold takes note of the grant: errLate if it is so old that the ticket may
// have ended by now. If it has little time left, or its session has, renewed is closed when a heartbeat has renewed it,
// or it is lost.
func (t *ticket) hold(tk driver.Ticket) (renewed <-chan struct{}, err error) {
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
		return nil, ErrClosed
	case t.sess.ended.Load() && t.req.Hold == 0:
		return nil, driver.ErrSession
	case end.Add(-spare) <= now:
		return nil, errLate
	case !t.held(tk):
		return nil, driver.ErrGone
	default:
		t.q.joins.end(t)
		t.since, t.heard, t.end = now, now, end
		t.deadline = t.most(end.Add(-spare))
		t.e.reaper.lookAt(t.deadline)
		if t.fixed() {
			return nil, nil
		}
		t.sess.renewBy(end)
		if min(end, driver.Instant(t.sess.alive.Load()).Add(ttl)).Sub(now) < spare+ttl/least {
			t.renewed = make(chan struct{})
		}
		return t.renewed, nil
	}
}

// noteRenewal ends the wait for a heartbeat.
func (t *ticket) noteRenewal() {
	if t.renewed != nil {
		close(t.renewed)
		t.renewed = nil
	}
}

// most is the deadline that another one becomes by AtMost.
func (t *ticket) most(deadline driver.Instant) driver.Instant {
	if t.r.AtMost > 0 {
		return min(deadline, t.since.Add(t.r.AtMost))
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
		t.loseLocked(why, false)
	}
}
