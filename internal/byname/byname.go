// Package byname keeps the leases of adapters. Other libraries unlock by a name, or without saying what; here Release
// is a method of the lease.
package byname

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// Under returns the name prefix/name, of a name that another library makes. If that is not one of Interlock's, such as
// one with a domain of 253 bytes, it has the SHA-256 of the name in hex instead.
func Under(prefix, name string) string {
	full := prefix + "/" + name
	if driver.CheckName(full) != nil {
		full = fmt.Sprintf("%s/%x", prefix, sha256.Sum256([]byte(name)))
	}
	return full
}

// Leases has one lease for each name at most. The zero value has none.
type Leases struct {
	mu     sync.Mutex
	leases map[string]*interlock.Lease
}

// Keep keeps what Acquire or TryAcquire has returned until Release.
//
// A lease of the same name that was lost stays until its work has called Release: that call must not release the
// lease of another goroutine, which would then work without a lock. So until then the new lease is given back, with
// an error that wraps ErrBusy.
func (l *Leases) Keep(lease *interlock.Lease, err error) error {
	if err != nil {
		return err
	}
	if !l.put(lease) {
		_ = lease.Release()
		return fmt.Errorf("acquire %q: %w: work of this process that has lost the lock goes on",
			lease.Name(), interlock.ErrBusy)
	}
	return nil
}

func (l *Leases) put(lease *interlock.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases[lease.Name()] != nil {
		return false
	}
	if l.leases == nil {
		l.leases = map[string]*interlock.Lease{}
	}
	l.leases[lease.Name()] = lease
	return true
}

// Replace keeps a lease in the place of one of the same name that was lost, whose work goes on under this one.
func (l *Leases) Replace(lease *interlock.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[lease.Name()] = lease
}

// Find returns the lease of a name, which may be lost; nil without one.
func (l *Leases) Find(name string) *interlock.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[name]
}

// Release releases the lease of a name, within its TTL even if the backend is away. The error wraps ErrLost if the
// lock was lost before, or ran out before the backend had it back, and is ErrReleased if no lease has this name.
func (l *Leases) Release(name string) error {
	l.mu.Lock()
	lease := l.leases[name]
	delete(l.leases, name) // first: the next holder may be in this process
	l.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("release %q: it is not locked: %w", name, interlock.ErrReleased)
	}
	return lease.Release()
}
