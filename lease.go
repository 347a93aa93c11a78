package interlock

import (
	"context"
	"os"
	"time"
)

// Lease is a lock that is held, until it is released or lost. It is lost at
// its deadline, by the local clock, whether or not the backend can be reached;
// the deadline moves with every renewal, and lies before the time at which the
// backend can give the lock to another. Every method judges that anew, so that
// a process that was stopped for a while is told at its next call.
type Lease struct{ h holding }

// holding is what a Lease stands for: one lock (single), or those of [All] (whole). The methods
// that Lease has, too, are described there.
type holding interface {
	ID() string
	Token() uint64
	BackendToken() uint64
	Exclusive() bool
	Name() string
	Deadline() time.Time
	Remaining() time.Duration
	InDoubt() bool
	Done() <-chan struct{}
	Err() error
	Inherited() bool
	Revoked() <-chan struct{}
	Liveness() []*os.File
	Extend(ctx context.Context, d time.Duration) error
	Downgrade(ctx context.Context) error
	Permits() int64
	KeepPermits(ctx context.Context, permits int64) error

	// release gives up what is held. If it is not clean, the next holder is told that work may
	// be half done. Called again, it returns the same.
	release(clean bool) error

	// carry adds what is held to a context.
	carry(ctx context.Context) context.Context

	// bind has a context end with the lease. It fails if the lease has ended.
	bind(*binding) error
	unbind(*binding)

	// enterBody is called before a function of Do starts, leaveBody when it has returned.
	enterBody() error
	leaveBody()

	// parts are the leases that it consists of, in the order of the arguments of All.
	parts() []*single
}

// Parts returns the leases of the locks that [All] was given, in the order of the arguments, of each
// lock once. Of any other lease it is the lease itself. A part may be extended; a part that is
// released ends the whole lease.
func (l *Lease) Parts() (parts []*Lease) {
	for _, p := range l.h.parts() {
		parts = append(parts, &p.lease)
	}
	return parts
}

// ID names this grant, for Adopt, Evict and Revoke. It is empty for the lease of [All], whose parts
// have IDs.
func (l *Lease) ID() string { return l.h.ID() }

// Token is the fencing token: 0 < t < 1<<63. For exclusive leases of one name
// it grows with every grant, over crashes and restarts, so that a resource can
// refuse the late write of an old holder. Tokens of shared leases cannot be
// compared. It is 0 for the lease of [All], whose parts have tokens.
func (l *Lease) Token() uint64 { return l.h.Token() }

// BackendToken is the number that other programs on the same backend see, such
// as a revision or a zxid. Grants within one process share it. It is 0 for the lease of [All].
func (l *Lease) BackendToken() uint64 { return l.h.BackendToken() }

// Exclusive reports whether nobody else can hold any part of the lock: a
// mutex, a writer, a semaphore's whole capacity. Only then may its token be
// compared with others.
func (l *Lease) Exclusive() bool { return l.h.Exclusive() }

// Name is the lock's name, without the client's prefix.
func (l *Lease) Name() string { return l.h.Name() }

// Deadline is when the lease is lost unless it is renewed before. It moves
// with every renewal. That of [All] is the earliest of its parts.
func (l *Lease) Deadline() time.Time { return l.h.Deadline() }

// Remaining is the time to the deadline by the steady clock that decides; 0 if
// the lease is over.
func (l *Lease) Remaining() time.Duration { return l.h.Remaining() }

// InDoubt reports that the last renewal failed: the lease is lost at its
// deadline unless one succeeds. Careful work pauses.
func (l *Lease) InDoubt() bool { return l.h.InDoubt() }

// Done is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} { return l.h.Done() }

// Err is nil while the lease is held, then it wraps ErrLost and says what happened, or is
// ErrReleased. A Release that finds the lock lost makes that of it too. After Close it is
// ErrReleased, or ErrClosed for a lease of ExpiresAfter, which stays. When a part of a lease of [All] has
// ended alone, it wraps ErrLost and names the part.
func (l *Lease) Err() error { return l.h.Err() }

// Inherited reports that the last exclusive holder died, or left its work
// unfinished: what the lock protects may be half changed. It is known with the
// option ReportDeath.
func (l *Lease) Inherited() bool { return l.h.Inherited() }

// Revoked is closed when somebody asks for the lock (see [Admin.Revoke]). It
// is a request: the lease stays until it is released.
func (l *Lease) Revoked() <-chan struct{} { return l.h.Revoked() }

// Liveness returns the open files whose last close, in whatever process, ends
// the lease's session: a child process that inherits them keeps the lock of a
// parent that was killed, though no longer than its TTL. Most backends have
// none.
func (l *Lease) Liveness() []*os.File { return l.h.Liveness() }
