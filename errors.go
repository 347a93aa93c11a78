package interlock

import (
	"errors"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
	"github.com/interlock-go/interlock/internal/oneline"
)

// Test for these with errors.Is; functions return them inside an [*Error].
var (
	// ErrBusy: TryAcquire would have had to wait, or the time of Wait ran out.
	ErrBusy = driver.ErrBusy

	// ErrUnavailable: the backend did not answer, or failed in a way that may pass, up to the end of the
	// call. Whether others hold the lock is not known, so that it is not ErrBusy, also when the time of
	// [Wait] ran out. It comes together with the cause of the context if that ended the call, and with
	// [context.DeadlineExceeded] if Wait did. Who waits learns of it from the heartbeat: a backend that goes
	// away in the last two thirds of a TTL of the wait may go unnoticed. A backend that answers, and grants
	// nothing for some time since it has lost its locks in a crash, is not available either: see
	// [Queue].Paused.
	ErrUnavailable = engine.ErrUnavailable

	// ErrLost: the lease ended without being released. It is the cause of every
	// context that was bound to the lease.
	ErrLost = engine.ErrLost

	// ErrEvicted: the lease was lost because somebody evicted it. It comes
	// together with ErrLost. The lock passes on when the lease is released, or
	// its TTL has run out.
	ErrEvicted = engine.ErrEvicted

	// ErrReleased is what Lease.Err returns after Release.
	ErrReleased = engine.ErrReleased

	// ErrInvalid: a wrong name, URL, option or argument, such as a value of more than
	// 64 KiB; the request can never succeed.
	ErrInvalid = driver.ErrInvalid

	// ErrMismatch: users of one name disagree on what it is or on its capacity.
	ErrMismatch = driver.ErrMismatch

	// ErrDeadlock: the context holds this lock already, so that waiting for it
	// would never end. The ways out are [Reentrant], [LeaseFrom] and [Detach]. A reader
	// that asks for the writer's side gets it too: only the release of the reader's
	// side helps, as the text says. And so does a wait with [BreakDeadlocks] whose deadlock has to be
	// broken: release what is held, and try again.
	ErrDeadlock = engine.ErrDeadlock

	// ErrNoLeader: nobody leads the election.
	ErrNoLeader = errors.New("nobody leads")

	// ErrConflict: the value was changed by somebody else.
	ErrConflict = driver.ErrConflict

	// ErrClosed: the client is closed.
	ErrClosed = engine.ErrClosed
)

// Retryable reports whether the same call may succeed later: the lock was busy or lost, or the backend away. A loop
// that works under a lock ends with any other error: a wrong name, users who disagree, a closed client, or one of
// the work itself.
func Retryable(err error) bool {
	for _, never := range []error{ErrClosed, ErrInvalid, ErrMismatch, ErrDeadlock} {
		if errors.Is(err, never) {
			return false
		}
	}
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLost)
}

// Error says what failed on which name, as [io/fs.PathError] does for files.
type Error struct {
	Op   string // acquire, release, extend, …
	Name string
	Err  error
}

// Error quotes a name that has anything but printable characters, and leaves out one that is
// empty: the text is one line.
func (e *Error) Error() string {
	name := e.Name
	if name == "" {
		return "interlock: " + e.Op + ": " + e.Err.Error()
	}
	return "interlock: " + e.Op + " " + oneline.Name(name) + ": " + e.Err.Error()
}
func (e *Error) Unwrap() error { return e.Err }

// failed is the error of an operation; nil if err is.
func failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Err: engine.Public(err)}
}
