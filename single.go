package interlock

import (
	"context"
	"errors"
	"strconv"
	"strings"

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

	// The mutex of the ticket's queue guards the rest. The numbers are small, since a lease is allocated for each hand-over.
	at    int32         // in t.leases
	works int32         // bound contexts whose functions were not called
	given bool          // its holder has released it
	late  chan struct{} // closed when its overrun ends; nil if there is none
	fate  fate
}

// grant is one local turn; nested leases share it.
type grant struct {
	number    uint64 // among those of the ticket, from 0
	since     driver.Instant
	leases    int32 // not yet released; guarded by the mutex of the queue
	unclean   bool  // a function of Do has panicked; guarded by it, too
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

// newLease makes a lease of a new turn.
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

// attach makes l a lease of the ticket.
func (t *ticket) attach(l *single, ctx context.Context, lock *Lock) {
	l.lease.part, l.t, l.lock, l.at = l, t, lock, int32(len(t.leases))
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
	t := l.t
	now := t.c.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	t.judge(now)
	switch {
	case l.fate.why != nil || t.c.closing.Load():
		return nil, 0
	case !lock.cfg.reentrant || t.units < lock.units:
		return nil, t.units
	}
	nested = &single{g: l.g}
	t.attach(nested, ctx, lock)
	if nested.by != nil {
		nested.by.id = l.by.id
	}
	return nested, t.units
}

// end makes err the lease's fate, and ends its bound contexts.
func (l *single) end(err error) {
	l.fate.end(err)
	l.endBound(err)
}

func (l *single) token() uint64 { return l.t.tk.Token<<tokenBits | l.g.number }

func (l *single) exclusive() bool { return l.units() == l.t.req.Capacity }

func (l *single) inDoubt() bool {
	l.t.q.mu.Lock()
	defer l.t.q.unlock()
	return l.t.doubt != nil
}

func (l *single) err() (why error) {
	l.t.judged(func() { why = l.fate.why })
	return why
}

func (l *single) ended() (ended <-chan struct{}) {
	l.t.judged(func() { ended = l.fate.ended() })
	return ended
}

func (l *single) askedFor() <-chan struct{} {
	l.t.q.mu.Lock()
	defer l.t.q.unlock()
	return l.fate.askedFor(l.t.revoked)
}

func (l *single) isRevoked() bool {
	l.t.q.mu.Lock()
	defer l.t.q.unlock()
	return l.t.revoked
}

// signalRevoked tells all who asked that the lock is asked for.
func (l *single) signalRevoked() {
	for b := l.fate.bound.first; b != nil; b = b.next {
		if b.asked != nil {
			b.asked()
		}
	}
	l.fate.ask()
}
