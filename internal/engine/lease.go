package engine

import (
	"cmp"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Lease is what a holder has: a share in a grant of a ticket, or the leases of several locks, its parts. Its holder
// makes it, before it is granted.
type Lease struct {
	by    Holder
	r     *Request
	t     *ticket // nil until it is granted, and if it has parts
	g     *grant
	own   grant  // what g points to, unless the lease is nested
	parts *parts // nil: it has none
	once  outcome

	// The mutex of the queue, or of the parts, guards the rest. The numbers are small, since a lease is allocated for
	// each hand-over.
	at    int32         // in t.leases
	works int32         // bound contexts whose functions were not called
	given bool          // its holder has released it
	late  chan struct{} // closed when its overrun ends; nil if there is none
	ending
}

// grant is one local turn; nested leases share it.
type grant struct {
	number    uint64 // among those of the ticket, from 0
	since     driver.Instant
	leases    int32 // not yet released; guarded by the mutex of the queue
	unclean   bool  // a function of Do has panicked; guarded by it, too
	inherited bool
}

// outcome is what a release came to. Called again, it returns the same.
//
// A call that comes meanwhile waits for a channel. For synctest a call that waits for a mutex, or a sync.Once, is at
// work: simulated time would stand still, and the first call would never be answered.
type outcome struct {
	// nil before the release, then underWay, or what calls wait for that have come meanwhile, then closedChan
	done atomic.Pointer[chan struct{}]
	err  error
}

// underWay is the state of a release that nobody waits for yet.
var underWay = make(chan struct{})

// Release gives up what is held: first the bound contexts end, then the next waiter is served. If it is not clean, the
// next holder is told that work may be half done. Called again, it returns the same.
func (l *Lease) Release(clean bool) error {
	o := &l.once
	if !o.done.CompareAndSwap(nil, &underWay) {
		if o.done.Load() == &underWay {
			waited := make(chan struct{})
			o.done.CompareAndSwap(&underWay, &waited)
		}
		<-*o.done.Load()
		return o.err
	}
	if l.parts != nil {
		o.err = l.releaseAll(clean)
	} else {
		o.err = l.releaseOnce(clean)
	}
	if waited := o.done.Swap(&closedChan); waited != &underWay {
		close(*waited)
	}
	return o.err
}

// guard is what guards the lease.
func (l *Lease) guard() *guard {
	if l.parts != nil {
		return &l.parts.guard
	}
	return &l.t.q.guard
}

// locked calls f with the mutex.
func (l *Lease) locked(f func()) {
	g := l.guard()
	g.mu.Lock()
	defer g.unlock()
	f()
}

// checked calls f with the mutex, after deadlines were checked.
func (l *Lease) checked(f func()) {
	if l.parts == nil {
		l.t.checked(f)
		return
	}
	l.checkParts()
	l.locked(f)
}

// IsGone reports that the backend does not have a ticket.
func IsGone(err error) bool { return errors.Is(err, driver.ErrGone) }

// Holder is who acquires the lease, and then has it.
func (l *Lease) Holder() Holder { return l.by }

// Init gives a lease that was not acquired yet the one who wants it, and what that wants.
func (l *Lease) Init(by Holder, r *Request) { l.by, l.r = by, r }

// grant makes l the lease of a new turn.
func (t *ticket) grant(l *Lease, now driver.Instant) {
	l.own = grant{number: t.grants, since: now}
	// Those who hold together are all told: none of them can have repaired anything.
	l.own.inherited = t.tk.Inherited && (t.grants == 0 || t.req.Units < t.req.Capacity)
	l.g = &l.own
	t.grants++
	t.live++
	t.attach(l)
}

// attach makes l a lease of the ticket.
func (t *ticket) attach(l *Lease) {
	l.t, l.at, l.asked = t, int32(len(t.leases)), t.revoked
	l.g.leases++
	t.leases = append(t.leases, l)
	if d := l.r.AtLeast; d > 0 {
		t.keep = max(t.keep, l.g.since.Add(d))
	}
}

// Nest makes nested another lease of a live grant, if it wants no more than the lease has. Else
// it returns what the lease has: 0 if it is over.
func (l *Lease) Nest(nested *Lease) (ok bool, has int64) {
	t := l.t
	now := t.e.d.Now()
	t.q.mu.Lock()
	defer t.q.unlock()
	t.checkDeadline(now)
	switch {
	case l.why != nil || t.e.closing.Load():
		return false, 0
	case !nested.r.Reentrant || t.units < nested.r.Units:
		return false, t.units
	}
	nested.g = l.g
	t.attach(nested)
	return true, t.units
}

// ID names the grant. It has the token for the one who adopts the lease: members of a quorum give different ones.
func (l *Lease) ID() string { return l.t.req.ID + "." + strconv.FormatUint(l.Token(), 10) }

// Token is the token of the grant.
func (l *Lease) Token() uint64 { return l.t.tk.Token<<TokenBits | l.g.number }

// Exclusive reports whether it has the whole capacity.
func (l *Lease) Exclusive() bool { return l.Units() == l.t.req.Capacity }

// BackendToken is the number of the ticket's grant.
func (l *Lease) BackendToken() uint64 { return l.t.tk.Token }

// Ticket names the ticket.
func (l *Lease) Ticket() string { return l.t.req.ID }

// Fixed reports a lease that ends by itself.
func (l *Lease) Fixed() bool { return l.t.req.Hold > 0 }

// Beside reports whether both are leases of one grant.
func (l *Lease) Beside(o *Lease) bool { return l.g == o.g }

// Capacity is the capacity with which the ticket was joined.
func (l *Lease) Capacity() int64 { return l.t.req.Capacity }

// Inherited reports what the holder is told of the last one.
func (l *Lease) Inherited() bool { return l.g.inherited }

// Units are those that the lease has.
func (l *Lease) Units() (units int64) {
	l.locked(func() { units = l.t.units })
	return units
}

// InDoubt reports that the last renewal failed.
func (l *Lease) InDoubt() (doubt bool) {
	l.locked(func() { doubt = l.t.doubt != nil })
	return doubt
}

// Left is the time to the deadline, the earliest of all parts.
func (l *Lease) Left() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, p := range l.Parts() {
		p.locked(func() { least = min(least, p.t.deadline.Sub(p.t.e.d.Now())) })
	}
	return least
}

// Remaining is Left while the lease is held.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(0, l.Left())
}

// Liveness is the open files whose last close ends the session.
func (l *Lease) Liveness() []*os.File { return l.t.sess.s.Liveness }

// Err is nil while the lease is held.
func (l *Lease) Err() (why error) {
	l.checked(func() { why = l.why })
	return why
}

// Done is closed when the lease has ended.
func (l *Lease) Done() (ended <-chan struct{}) {
	l.checked(func() { ended = l.ended() })
	return ended
}

// Revoked is closed when the lock is asked for.
func (l *Lease) Revoked() (asked <-chan struct{}) {
	l.locked(func() { asked = l.askedFor() })
	return asked
}

// Leases are the live ones of a queue, in the order in which they were granted.
func (e *Engine) Leases(queue string) (live []*Lease) {
	q := e.queue(queue)
	defer q.leave()
	q.each(func(t *ticket) {
		t.checkDeadline(e.d.Now())
		live = append(live, t.leases...)
	})
	slices.SortFunc(live, func(a, b *Lease) int {
		return cmp.Or(cmp.Compare(a.g.since, b.g.since), cmp.Compare(a.Token(), b.Token()))
	})
	return live
}

// TicketID returns the ticket's part of the ID of a lease or of a ticket.
func TicketID(id string) string {
	ticket, _, _ := strings.Cut(id, ".")
	return ticket
}

// TicketToken returns the ticket's part of the token in the ID of a lease. 0: there is none, as in the ID of a ticket.
func TicketToken(id string) uint64 {
	_, token, _ := strings.Cut(id, ".")
	n, err := strconv.ParseUint(token, 10, 63)
	if err != nil {
		return 0
	}
	return n >> TokenBits
}
