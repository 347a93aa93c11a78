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

// Lease is a lock that is held, until it is released or lost. It is lost at
// its deadline, by the local clock, whether or not the backend can be reached;
// the deadline moves with every renewal, and lies before the time at which the
// backend can give the lock to another. Every method judges that anew, so that
// a process that was stopped for a while is told at its next call.
type Lease struct {
	t      *ticket
	lock   *Lock
	g      *grant
	ctx    context.Context // of the acquire, for events; nil if nobody observes
	unseen bool            // its acquire was cancelled: nobody has it
	own    grant           // what g points to, unless the lease is nested

	once   sync.Once
	result error

	// The rest is guarded by t.mu.
	at      int // in t.leases
	err     error
	done    chan struct{} // made when it is asked for
	revoked chan struct{} // made when it is asked for
	bound   *binding      // the first of a list
}

// grant is one local turn; nested leases share it.
type grant struct {
	number    uint64 // among those of the ticket, from 0
	since     driver.Instant
	inherited bool
	leases    int  // not yet released; guarded by ticket.mu, as the rest
	unclean   bool // a function of Do has panicked
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
func (t *ticket) grant(ctx context.Context, lock *Lock, now driver.Instant) (*Lease, error) {
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
func (t *ticket) newLease(ctx context.Context, lock *Lock, now driver.Instant) *Lease {
	l := &Lease{own: grant{number: t.grants, since: now}}
	l.own.inherited = t.grants == 0 && t.tk.Inherited
	l.g = &l.own
	t.grants++
	t.live++
	t.attach(l, ctx, lock)
	return l
}

// attach makes l a lease of the ticket. t.mu is held.
func (t *ticket) attach(l *Lease, ctx context.Context, lock *Lock) {
	l.t, l.lock, l.at = t, lock, len(t.leases)
	if t.c.cfg.observed() {
		l.ctx = context.WithoutCancel(ctx)
	}
	l.g.leases++
	t.leases = append(t.leases, l)
	if d := lock.cfg.atLeast; d > 0 {
		t.keep = max(t.keep, l.g.since.Add(d))
	}
}

// nest makes another lease of a live grant, if lock wants no more than the lease has. Else
// it returns what the lease has: 0 if it is over.
func (l *Lease) nest(ctx context.Context, lock *Lock) (nested *Lease, has int64) {
	defer l.locked()()
	switch {
	case l.err != nil || l.t.winding:
		return nil, 0
	case !lock.cfg.reentrant || l.t.units < lock.units:
		return nil, l.t.units
	}
	nested = &Lease{g: l.g}
	l.t.attach(nested, ctx, lock)
	return nested, l.t.units
}

// locked locks the ticket and judges its deadline; the result unlocks it.
func (l *Lease) locked() (unlock func()) {
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
func (l *Lease) end(err error) func() {
	l.err = err
	if l.done != nil {
		close(l.done)
	}
	return l.unbind(err)
}

func (l *Lease) fail(op string, err error) error { return failed(op, l.t.name, err) }

// ID names this grant, for Adopt, Evict and Revoke.
func (l *Lease) ID() string { return leaseID(l.t.req.ID, l.g.number) }

// Token is the fencing token: 0 < t < 1<<63. For exclusive leases of one name
// it grows with every grant, over crashes and restarts, so that a resource can
// refuse the late write of an old holder. Tokens of shared leases cannot be
// compared.
func (l *Lease) Token() uint64 { return l.t.tk.Token<<tokenBits | l.g.number }

// BackendToken is the number that other programs on the same backend see, such
// as a revision or a zxid. Grants within one process share it.
func (l *Lease) BackendToken() uint64 { return l.t.tk.Token }

// Exclusive reports whether nobody else can hold any part of the lock: a
// mutex, a writer, a semaphore's whole capacity. Only then may its token be
// compared with others.
func (l *Lease) Exclusive() bool {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.t.units == l.t.req.Capacity
}

// Name is the lock's name, without the client's prefix.
func (l *Lease) Name() string { return l.t.name }

// Deadline is when the lease is lost unless it is renewed before. It moves
// with every renewal.
func (l *Lease) Deadline() time.Time {
	l.t.mu.Lock()
	deadline := l.t.deadline
	l.t.mu.Unlock()
	return time.Now().Add(deadline.Sub(l.t.c.d.Now()))
}

// Remaining is the time to the deadline by the steady clock that decides; 0 if
// the lease is over.
func (l *Lease) Remaining() time.Duration {
	defer l.locked()()
	if l.err != nil {
		return 0
	}
	return max(0, l.t.deadline.Sub(l.t.c.d.Now()))
}

// InDoubt reports that the last renewal failed: the lease is lost at its
// deadline unless one succeeds. Careful work pauses.
func (l *Lease) InDoubt() bool {
	defer l.locked()()
	return l.err == nil && l.t.doubt != nil
}

// Done is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} {
	defer l.locked()()
	if l.done == nil {
		if l.err != nil {
			return closedChan
		}
		l.done = make(chan struct{})
	}
	return l.done
}

// Err is nil while the lease is held, then it wraps ErrLost and says what happened, or is
// ErrReleased. A Release that finds the lock lost makes that of it too. After Close it is
// ErrReleased, or ErrClosed for a lease of Hold, which stays.
func (l *Lease) Err() error {
	defer l.locked()()
	return l.err
}

// Inherited reports that the last exclusive holder died, or left its work
// unfinished: what the lock protects may be half changed. It is known with the
// option Robust.
func (l *Lease) Inherited() bool { return l.g.inherited }

// Revoked is closed when somebody asks for the lock (see [Client.Revoke]). It
// is a request: the lease stays until it is released.
func (l *Lease) Revoked() <-chan struct{} {
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

// signalRevoked closes what Revoked has returned. t.mu is held.
func (l *Lease) signalRevoked() {
	if l.revoked == nil {
		return
	}
	select {
	case <-l.revoked:
	default:
		close(l.revoked)
	}
}

// Liveness returns the open files whose last close, in whatever process, ends
// the lease's session: a child process that inherits them keeps the lock of a
// parent that was killed, though no longer than its TTL. Most backends have
// none.
func (l *Lease) Liveness() []*os.File { return l.t.sess.s.Liveness }
