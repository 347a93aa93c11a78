package interlock

import (
	"os"
	"slices"
	"time"

	"github.com/interlock-go/interlock/internal/engine"
)

// Lease is a lock that is held, until it is released or lost. It is lost at
// its deadline, by the local clock, whether or not the backend can be reached;
// the deadline moves with every renewal, and lies before the time at which the
// backend can give the lock to another. Every method judges that anew, so that
// a process that was stopped for a while is told at its next call.
//
// A lease has parts, which are leases too. The lease of one lock is its own part; the lease of [All] has one for
// each lock.
type Lease struct {
	lock *Lock
	held engine.Lease
	span *span // for events; nil without observers
}

// isAll reports whether it is the lease of All.
func (l *Lease) isAll() bool { return l.lock.parts != nil }

// leaseOf is the lease that has a part.
func leaseOf(p *engine.Lease) *Lease { return p.Holder().(holding).Lease }

func (l *Lease) any(is func(*engine.Lease) bool) bool { return slices.ContainsFunc(l.held.Parts(), is) }

func (l *Lease) fail(op string, err error) error { return failed(op, l.Name(), err) }

// failPart is the error of an operation on a part, with its name if there are several.
func (l *Lease) failPart(op string, p *engine.Lease, err error) error {
	if l.isAll() {
		err = ofPart(leaseOf(p).Name(), err)
	}
	return l.fail(op, err)
}

// Parts returns the leases of the locks that [All] was given, in the order of the arguments, of each
// lock once. Of any other lease it is the lease itself. A part may be extended; a part that is
// released ends the whole lease.
func (l *Lease) Parts() (parts []*Lease) {
	for _, p := range l.held.Parts() {
		parts = append(parts, leaseOf(p))
	}
	return parts
}

// ID names this grant, for Adopt, Evict and Revoke. It is empty for the lease of [All], whose parts
// have IDs. It has the token, which Adopt takes from it.
func (l *Lease) ID() string {
	if l.isAll() {
		return ""
	}
	return l.held.ID()
}

// Token is the fencing token: 0 < t < 1<<63. For exclusive leases of one name
// it grows with every grant, over crashes and restarts, so that a resource can
// refuse the late write of an old holder. Tokens of shared leases cannot be
// compared. It is 0 for the lease of [All], whose parts have tokens.
func (l *Lease) Token() uint64 {
	if l.isAll() {
		return 0
	}
	return l.held.Token()
}

// BackendToken is the number that other programs on the same backend see, such
// as a revision or a zxid. Grants within one process share it. It is 0 for the lease of [All].
func (l *Lease) BackendToken() uint64 {
	if l.isAll() {
		return 0
	}
	return l.held.BackendToken()
}

// Exclusive reports whether nobody else can hold any part of the lock: a
// mutex, a writer, a semaphore's whole capacity. Only then may its token be
// compared with others.
func (l *Lease) Exclusive() bool {
	return !l.any(func(p *engine.Lease) bool { return !p.Exclusive() })
}

// Name is the lock's name, without the client's prefix.
func (l *Lease) Name() string { return l.lock.Name() }

// Deadline is when the lease is lost unless it is renewed before. It moves
// with every renewal. That of [All] is the earliest of its parts.
func (l *Lease) Deadline() time.Time { return time.Now().Add(l.held.Left()) }

// Remaining is the time to the deadline by the steady clock that decides; 0 if
// the lease is over.
func (l *Lease) Remaining() time.Duration { return l.held.Remaining() }

// InDoubt reports that the last renewal failed: the lease is lost at its
// deadline unless one succeeds. Careful work pauses.
func (l *Lease) InDoubt() bool {
	return l.Err() == nil && l.any((*engine.Lease).InDoubt)
}

// Done is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} { return l.held.Done() }

// Err is nil while the lease is held, then it wraps ErrLost and says what happened, or is
// ErrReleased. A Release that finds the lock lost makes that of it too. After Close it is
// ErrReleased, or ErrClosed for a lease of ExpiresAfter, which stays. When a part of a lease of [All] has
// ended alone, it wraps ErrLost and names the part.
func (l *Lease) Err() error { return l.held.Err() }

// Inherited reports that the last exclusive holder died, or left its work
// unfinished: what the lock protects may be half changed. It is known with the
// option ReportDeath.
func (l *Lease) Inherited() bool {
	return l.any((*engine.Lease).Inherited)
}

// Revoked is closed when somebody asks for the lock (see [Admin.Revoke]). It
// is a request: the lease stays until it is released.
func (l *Lease) Revoked() <-chan struct{} { return l.held.Revoked() }

// Liveness returns the open files whose last close, in whatever process, ends
// the lease's session: a child process that inherits them keeps the lock of a
// parent that was killed, though no longer than its TTL. Most backends have
// none.
func (l *Lease) Liveness() []*os.File {
	var files []*os.File // each session's once
	for _, p := range l.held.Parts() {
		for _, f := range p.Liveness() {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files
}

// Release gives the lock up: first the bound contexts end, then the next
// waiter is served. It takes no context: it is repeated until the backend has
// confirmed it or the lease has run out; for a lease of ExpiresAfter, for one TTL at most.
// That of a lease that was evicted takes as long. It returns an error that wraps
// ErrLost if the lock was no longer held, or had run out before the backend
// confirmed it, also if Close has released it before; calling it again returns the same. The parts of a lease of
// [All] are released in the reverse of the order in which they were acquired, those of each client
// beside those of others; the error names those that were lost.
func (l *Lease) Release() error { return l.release(true) }

// abort is Release for work that may be half done: the next holder is told.
func (l *Lease) abort() error { return l.release(false) }

func (l *Lease) release(clean bool) error { return l.fail("release", l.held.Release(clean)) }
