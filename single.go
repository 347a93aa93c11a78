package interlock

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// single is the lease of one lock: a share in a grant of a ticket.
type single struct {
	lease Lease // what its holder has
	t     *ticket
	lock  *Lock
	g     *grant
	by    *caller // for events; nil without observers
	own   grant   // what g points to, unless the lease is nested

	once   sync.Once
	result error

	// The rest is guarded by t.mu. The numbers are small, since a lease is allocated for each hand-over.
	at      int32 // in t.leases
	works   int32 // bound contexts whose functions were not called
	err     error
	done    chan struct{} // made when it is asked for
	given   bool          // its holder has released it
	late    chan struct{} // closed when its overrun ends; nil if there is none
	revoked chan struct{} // made when it is asked for
	bound   bindings
}

// grant is one local turn; nested leases share it.
type grant struct {
	number    uint64 // among those of the ticket, from 0
	since     driver.Instant
	leases    int32 // not yet released; guarded by ticket.mu
	unclean   bool  // a function of Do has panicked; guarded by ticket.mu
	inherited bool
}

func isGone(err error) bool { return errors.Is(err, driver.ErrGone) }

func leaseID(ticket string, number uint64) string {
	return ticket + "." + strconv.FormatUint(number, 10)
}

// ticketID returns the ticket's part of the ID of a lease or of a ticket.
func ticketID(id string) string {
	ticket, _, _ := strings.Cut(id, ".")
	return ticket
}

// closedChan serves all leases that were over when their channel was asked for.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// grant starts a new turn. It fails if the ticket is not held any more.
func (t *ticket) grant(ctx context.Context, lock *Lock, now driver.Instant) (*single, error) {
	t.mu.Lock()
	if after := t.judge(now); t.state != ticketHeld {
		t.mu.Unlock()
		t.c.background(after) // it locks the line, as our caller does
		return nil, ErrLost
	}
	defer t.mu.Unlock()
	if t.winding {
		return nil, ErrClosed
	}
	return t.newLease(ctx, lock, now), nil
}

// newLease makes a lease of a new turn. t.mu is held.
func (t *ticket) newLease(ctx context.Context, lock *Lock, now driver.Instant) *single {
	l := &t.first
	if t.grants > 0 {
		l = &single{}
	}
	l.own = grant{number: t.grants, since: now}
	// Those who hold together are all told: none of them can have repaired anything.
	l.own.inherited = t.tk.Inherited && (t.grants == 0 || t.req.Units < t.req.Capacity)
	l.g = &l.own
	t.grants++
	t.live++
	t.attach(l, ctx, lock)
	return l
}

// attach makes l a lease of the ticket. t.mu is held.
func (t *ticket) attach(l *single, ctx context.Context, lock *Lock) {
	l.lease.h, l.t, l.lock, l.at = l, t, lock, int32(len(t.leases))
	if t.c.cfg.observed() {
		if l.by = callerOf(ctx); l.by == nil {
			l.by = lock.calledBy(ctx, true)
		}
	}
	l.g.leases++
	t.leases = append(t.leases, l)
	if d := lock.cfg.atLeast; d > 0 {
		t.keep = max(t.keep, l.g.since.Add(d))
	}
}

// nest makes another lease of a live grant, if lock wants no more than the lease has. Else
// it returns what the lease has: 0 if it is over.
func (l *single) nest(ctx context.Context, lock *Lock) (nested *single, has int64) {
	defer l.locked()()
	switch {
	case l.err != nil || l.t.winding:
		return nil, 0
	case !lock.cfg.reentrant || l.t.units < lock.units:
		return nil, l.t.units
	}
	nested = &single{g: l.g}
	l.t.attach(nested, ctx, lock)
	if nested.by != nil {
		nested.by.id = l.by.id
	}
	return nested, l.t.units
}

// locked locks the ticket and judges its deadline; the result unlocks it.
func (l *single) locked() (unlock func()) {
	now := l.t.c.d.Now()
	l.t.mu.Lock()
	after := l.t.judge(now)
	return func() {
		l.t.mu.Unlock()
		after()
	}
}

// end makes err the lease's fate. t.mu is held; the caller calls the result,
// which ends the bound contexts, after unlocking.
func (l *single) end(err error) func() {
	l.err = err
	if l.done != nil {
		close(l.done)
	}
	return l.endBound(err)
}

func (l *single) fail(op string, err error) error { return failed(op, l.t.name, err) }

func (l *single) ID() string { return leaseID(l.t.req.ID, l.g.number) }

func (l *single) Token() uint64 { return l.t.tk.Token<<tokenBits | l.g.number }

func (l *single) BackendToken() uint64 { return l.t.tk.Token }

func (l *single) Exclusive() bool {
	return l.units() == l.t.req.Capacity
}

func (l *single) Name() string { return l.t.name }

func (l *single) Deadline() time.Time {
	l.t.mu.Lock()
	deadline := l.t.deadline
	l.t.mu.Unlock()
	return time.Now().Add(deadline.Sub(l.t.c.d.Now()))
}

func (l *single) Remaining() time.Duration {
	defer l.locked()()
	if l.err != nil {
		return 0
	}
	return max(0, l.t.deadline.Sub(l.t.c.d.Now()))
}

func (l *single) InDoubt() bool {
	defer l.locked()()
	return l.err == nil && l.t.doubt != nil
}

func (l *single) Done() <-chan struct{} {
	defer l.locked()()
	if l.done == nil {
		if l.err != nil {
			return closedChan
		}
		l.done = make(chan struct{})
	}
	return l.done
}

func (l *single) Err() error {
	defer l.locked()()
	return l.err
}

func (l *single) Inherited() bool { return l.g.inherited }

func (l *single) Revoked() <-chan struct{} {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if l.revoked == nil {
		l.revoked = make(chan struct{})
		if l.t.revoked {
			close(l.revoked)
		}
	}
	return l.revoked
}

func (l *single) isRevoked() bool {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.t.revoked
}

// signalRevoked closes what Revoked has returned. t.mu is held.
func (l *single) signalRevoked() {
	for b := l.bound.first; b != nil; b = b.next {
		if b.asked != nil {
			b.asked()
		}
	}
	if l.revoked == nil {
		return
	}
	select {
	case <-l.revoked:
	default:
		close(l.revoked)
	}
}

func (l *single) Liveness() []*os.File { return l.t.sess.s.Liveness }

func (l *single) parts() []*single { return []*single{l} }
