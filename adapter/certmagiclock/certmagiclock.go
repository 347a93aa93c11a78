// Package certmagiclock has processes that share a storage of CertMagic (github.com/caddyserver/certmagic), such as
// Caddy's, obtain each certificate once: with the locks of a backend, beside a storage that has none, or whose locks
// are slow or left behind by the dead.
//
//	import "github.com/caddyserver/certmagic"
//
//	type files struct{ certmagic.Storage } // where certificates lie; its own locks are not used
//
//	type storage struct {
//		files
//		*certmagiclock.Locker // is less deep than the methods of the same names in files
//	}
//
//	func share(c *interlock.Client) {
//		certmagic.Default.Storage = storage{files{certmagic.Default.Storage}, certmagiclock.New(c, "certmagic")}
//	}
//
// The package does not import CertMagic, which needs no more of it than its methods.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/byname"
)

// Locker is a Locker, a TryLocker and a LockLeaseRenewer of CertMagic. Its leases are renewed until Unlock, so that
// they outlive any number of retries, and end with the [interlock.TTL] when the process dies.
//
// CertMagic gives its work no context of the lock. When a lock is lost, the attempt that is under way goes on, and
// another process may obtain the same certificate meanwhile.
type Locker struct {
	client *interlock.Client
	prefix string
	opts   []interlock.Option
	leases byname.Leases
}

// New returns a Locker whose mutexes have the names prefix/name, of names that CertMagic makes, such as
// certmagic/issue_cert_example.com. A name that is too long, or otherwise not one of Interlock's, is its SHA-256
// in hex instead. Processes that share a storage use one prefix.
func New(c *interlock.Client, prefix string, opts ...interlock.Option) *Locker {
	return &Locker{client: c, prefix: prefix, opts: opts}
}

func (l *Locker) lock(name string) *interlock.Lock {
	return l.client.Mutex(byname.Under(l.prefix, name), l.opts...)
}

// Lock waits until the lock is held, or ctx ends. The errors are as of [interlock.Lock.Acquire].
func (l *Locker) Lock(ctx context.Context, name string) error {
	return l.leases.Keep(l.lock(name).Acquire(ctx))
}

// TryLock returns false if another holds the lock. An error leaves that open, such as one that wraps
// [interlock.ErrUnavailable].
func (l *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	err := l.leases.Keep(l.lock(name).TryAcquire(ctx))
	if errors.Is(err, interlock.ErrBusy) {
		return false, nil
	}
	return err == nil, err
}

// RenewLockLease has nothing to do while the lock is held, for any duration. CertMagic calls it before each attempt,
// and looks then whether the certificate is there. So a lock that was lost since the last attempt is tried again. The
// attempt fails if another has it (the error wraps [interlock.ErrBusy]), and a later one tries again.
func (l *Locker) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	lock := l.lock(name)
	lease := l.leases.Find(lock.Name())
	if lease == nil {
		return fmt.Errorf("renew %q: it is not locked: %w", name, interlock.ErrReleased)
	}
	if lease.Err() == nil {
		return nil
	}
	_ = lease.Release() // one that was evicted keeps others out until then
	lease, err := lock.TryAcquire(ctx)
	if err == nil {
		l.leases.Replace(lease)
	}
	return err
}

// Unlock releases the lock, whether or not the context has ended, within one TTL even if the backend is away. The
// error wraps [interlock.ErrLost] if the lock was lost before, or ran out before the backend had it back; CertMagic
// logs it. A name that is not locked is not an error: CertMagic unlocks again what it has cleaned up.
func (l *Locker) Unlock(_ context.Context, name string) error {
	if err := l.leases.Release(l.lock(name).Name()); !errors.Is(err, interlock.ErrReleased) {
		return err
	}
	return nil
}
