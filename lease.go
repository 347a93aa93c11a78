package interlock

import (
	"math"
	"os"
	"slices"
	"sync"
	"time"
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
	part *single // of one lock
	all  *whole  // of All; else nil

	mu       sync.Mutex
	released chan struct{} // nil before the release, then underWay, or what calls wait for that came meanwhile, then isOver
	result   error         // of the release
}

// parts are the leases that it consists of, in the order of the arguments of All.
func (l *Lease) parts() []*single {
	if l.all != nil {
		return l.all.parts()
	}
	return []*single{l.part}
}

func (l *Lease) any(is func(*single) bool) bool { return slices.ContainsFunc(l.parts(), is) }

func (l *Lease) fail(op string, err error) error { return failed(op, l.Name(), err) }

// failPart is the error of an operation on a part, with its name if there are several.
func (l *Lease) failPart(op string, p *single, err error) error {
	if l.all != nil {
		err = ofPart(p.t.name, err)
	}
	return l.fail(op, err)
}

// Parts returns the leases of the locks that [All] was given, in the order of the arguments, of each
// lock once. Of any other lease it is the lease itself. A part may be extended; a part that is
// released ends the whole lease.
func (l *Lease) Parts() (parts []*Lease) {
	for _, p := range l.parts() {
		parts = append(parts, &p.lease)
	}
	return parts
}

// ID names this grant, for Adopt, Evict and Revoke. It is empty for the lease of [All], whose parts
// have IDs.
func (l *Lease) ID() string {
	if l.all != nil {
		return ""
	}
	return leaseID(l.part.t.req.ID, l.part.g.number)
}

// Token is the fencing token: 0 < t < 1<<63. For exclusive leases of one name
// it grows with every grant, over crashes and restarts, so that a resource can
// refuse the late write of an old holder. Tokens of shared leases cannot be
// compared. It is 0 for the lease of [All], whose parts have tokens.
func (l *Lease) Token() uint64 {
	if l.all != nil {
		return 0
	}
	return l.part.token()
}

// BackendToken is the number that other programs on the same backend see, such
// as a revision or a zxid. Grants within one process share it. It is 0 for the lease of [All].
func (l *Lease) BackendToken() uint64 {
	if l.all != nil {
		return 0
	}
	return l.part.t.tk.Token
}

// Exclusive reports whether nobody else can hold any part of the lock: a
// mutex, a writer, a semaphore's whole capacity. Only then may its token be
// compared with others.
func (l *Lease) Exclusive() bool {
	return !l.any(func(p *single) bool { return !p.exclusive() })
}

// Name is the lock's name, without the client's prefix.
func (l *Lease) Name() string {
	if l.all != nil {
		return l.all.lock.name
	}
	return l.part.t.name
}

// Deadline is when the lease is lost unless it is renewed before. It moves
// with every renewal. That of [All] is the earliest of its parts.
func (l *Lease) Deadline() time.Time {
	return time.Now().Add(l.left())
}

// left is the time to the earliest deadline of the parts.
func (l *Lease) left() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, p := range l.parts() {
		p.t.q.mu.Lock()
		deadline := p.t.deadline
		p.t.q.unlock()
		least = min(least, deadline.Sub(p.t.c.d.Now()))
	}
	return least
}

// Remaining is the time to the deadline by the steady clock that decides; 0 if
// the lease is over.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(0, l.left())
}

// InDoubt reports that the last renewal failed: the lease is lost at its
// deadline unless one succeeds. Careful work pauses.
func (l *Lease) InDoubt() bool {
	return l.Err() == nil && l.any((*single).inDoubt)
}

// Done is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} {
	if l.all != nil {
		return l.all.ended()
	}
	return l.part.ended()
}

// Err is nil while the lease is held, then it wraps ErrLost and says what happened, or is
// ErrReleased. A Release that finds the lock lost makes that of it too. After Close it is
// ErrReleased, or ErrClosed for a lease of ExpiresAfter, which stays. When a part of a lease of [All] has
// ended alone, it wraps ErrLost and names the part.
func (l *Lease) Err() error {
	if l.all != nil {
		return l.all.err()
	}
	return l.part.err()
}

// Inherited reports that the last exclusive holder died, or left its work
// unfinished: what the lock protects may be half changed. It is known with the
// option ReportDeath.
func (l *Lease) Inherited() bool {
	return l.any(func(p *single) bool { return p.g.inherited })
}

// Revoked is closed when somebody asks for the lock (see [Admin.Revoke]). It
// is a request: the lease stays until it is released.
func (l *Lease) Revoked() <-chan struct{} {
	if l.all != nil {
		return l.all.askedFor()
	}
	return l.part.askedFor()
}

// Liveness returns the open files whose last close, in whatever process, ends
// the lease's session: a child process that inherits them keeps the lock of a
// parent that was killed, though no longer than its TTL. Most backends have
// none.
func (l *Lease) Liveness() []*os.File {
	var files []*os.File // each session's once
	for _, p := range l.parts() {
		for _, f := range p.t.sess.s.Liveness {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files
}
