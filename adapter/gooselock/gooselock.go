// Package gooselock lets one process at a time run the migrations of goose (github.com/pressly/goose/v3):
//
//	import "github.com/pressly/goose/v3"
//
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"),
//		goose.WithLocker(gooselock.New(client, "migrations")))
//	…
//	results, err := provider.Up(ctx)
//
// The lock can be on any backend, and the database may be one without locks of its own. A process that waits goes on as
// soon as the holder has released the lock or died, and finds nothing left to do.
//
// The package does not import goose, which needs no more of it than its two methods.
package gooselock

import (
	"context"
	"database/sql"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/byname"
)

// Locker is a Locker of goose, for [goose.WithLocker] of one provider or of several. Of several in one process,
// too, one runs at a time.
//
// It does not use the database: goose has taken a connection already when it locks, which may be the only one.
//
// goose gives its migrations no context of the lock: one that is lost does not stop them, and a second process may
// start. The error of Up wraps [interlock.ErrLost] then. To stop them, leave the Locker out and call Up under
// [interlock.Lock.Do], with the context of that.
//
// [goose.WithLocker]: https://pkg.go.dev/github.com/pressly/goose/v3#WithLocker
type Locker struct {
	lock   *interlock.Lock
	leases byname.Leases
}

// New returns the Locker of the mutex of this name. Processes that migrate one database use one name.
// [interlock.Wait] bounds how long a process waits for the others: then the error of Up wraps
// [interlock.ErrBusy].
func New(c *interlock.Client, name string, opts ...interlock.Option) *Locker {
	return &Locker{lock: c.Mutex(name, opts...)}
}

// Lock waits until the lock is held, or ctx ends. The errors are as of [interlock.Lock.Acquire].
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	return l.leases.Keep(l.lock.Acquire(ctx))
}

// Unlock releases the lock, whether or not the context has ended, within one TTL even if the backend is away. The
// error wraps [interlock.ErrLost] if the lock was lost before, or ran out before the backend had it back, and
// [interlock.ErrReleased] if it is not locked.
func (l *Locker) Unlock(context.Context, *sql.DB) error {
	return l.leases.Release(l.lock.Name())
}
