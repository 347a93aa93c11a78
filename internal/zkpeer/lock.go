package zkpeer

import (
	"context"
	"maps"
	"time"
)

// Lock is a lock as one thread sees it.
type Lock struct {
	thread *Thread
	args   Args
}

// Mutex is an InterProcessMutex of Curator or a Lock of kazoo.
func (t *Thread) Mutex(path string) *Lock { return t.lock("mutex", path) }

// Read is the shared side of a read-write lock.
func (t *Thread) Read(path string) *Lock { return t.lock("read", path) }

// Write is the exclusive side of a read-write lock.
func (t *Thread) Write(path string) *Lock { return t.lock("write", path) }

// SemaphoreMutex is an InterProcessSemaphoreMutex of Curator. No thread owns it.
func (t *Thread) SemaphoreMutex(path string) *Lock { return t.lock("semaphoremutex", path) }

// Semaphore is an InterProcessSemaphoreV2 of Curator.
func (t *Thread) Semaphore(path string, most int) *Lock {
	l := t.lock("semaphore", path)
	l.args["max"] = most
	return l
}

// NoLock locks nothing, to see what happens then.
func (t *Thread) NoLock() *Lock { return t.lock("none", "/") }

func (t *Thread) lock(kind, path string) *Lock {
	return &Lock{t, Args{"kind": kind, "path": path}}
}

// Acquire waits for the lock.
func (l *Lock) Acquire(ctx context.Context) error { return l.AcquireUnits(ctx, 1) }

// AcquireUnits waits for so many leases of a semaphore of Curator at once.
func (l *Lock) AcquireUnits(ctx context.Context, n int) error {
	return l.call(ctx, "lock.acquire", Args{"units": n}, nil)
}

// TryAcquire waits for the lock so long at most, and reports whether it has got it.
func (l *Lock) TryAcquire(ctx context.Context, wait time.Duration) (ok bool, err error) {
	err = l.call(ctx, "lock.acquire", Args{"timeout": wait.Milliseconds()}, &ok)
	return ok, err
}

// Release releases what the thread has acquired last.
func (l *Lock) Release() error { return l.brief("lock.release", nil) }

// Participants are the paths of those who hold or wait, in order. Nodes that the
// peer takes for no lock are left out. Curator only.
func (l *Lock) Participants() (all []string, err error) {
	err = l.brief("lock.participants", &all)
	return all, err
}

// MakeRevocable has the session get an event Revoked when somebody asks a holder
// for the lock. It counts for what is acquired later. Curator only.
func (l *Lock) MakeRevocable() error { return l.brief("lock.revocable", nil) }

// Revoke asks the holder of a node to release its lock. Curator only.
func (t *Thread) Revoke(node string) error {
	return t.brief("lock.revoke", Args{"path": node}, nil)
}

func (l *Lock) call(ctx context.Context, op string, more Args, result any) error {
	args := maps.Clone(l.args)
	maps.Copy(args, more)
	return l.thread.Call(ctx, op, args, result)
}

func (l *Lock) brief(op string, result any) error { return l.thread.brief(op, l.args, result) }
