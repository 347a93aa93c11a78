// Package synclock makes a [sync.Locker] of a lock, for code that takes one, and has no place for a context or an
// error:
//
//	changed := sync.NewCond(synclock.New(client, "cache", func(err error) { log.Fatal(err) }))
//
// Code of your own takes [interlock.Lock.Do] instead, which ends its work when the lock is lost.
package synclock

import (
	"context"
	"errors"
	"sync"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/byname"
)

type locker struct {
	lock   *interlock.Lock
	leases byname.Leases
	lost   func(error)
}

// New returns a Locker of the mutex of this name, for all goroutines of the process.
//
// Lock waits for as long as it takes, also for a backend that is away. It panics with an error that the next try would
// bring again, such as [interlock.ErrInvalid] or [interlock.ErrClosed].
//
// A lock that is lost stays locked for this process until Unlock, while others may get it. Unlock calls lost then, with
// an error that wraps [interlock.ErrLost]: what was done under the lock may have been done beside another holder, or it
// ran out only before the backend had it back. Without lost (nil) it panics with the error, as it does if the lock is
// not locked. It returns within one TTL even if the backend is away.
func New(c *interlock.Client, name string, lost func(error), opts ...interlock.Option) sync.Locker {
	if lost == nil {
		lost = func(err error) { panic(err) }
	}
	return &locker{lock: c.Mutex(name, opts...), lost: lost}
}

func (l *locker) Lock() {
	var b backoff.Backoff
	for {
		err := l.leases.Keep(l.lock.Acquire(context.Background()))
		switch {
		case err == nil:
			return
		case !interlock.Retryable(err):
			panic(err)
		}
		_ = b.Sleep(context.Background())
	}
}

func (l *locker) Unlock() {
	switch err := l.leases.Release(l.lock.Name()); {
	case err == nil:
	case errors.Is(err, interlock.ErrReleased): // without Lock
		panic(err)
	default:
		l.lost(err)
	}
}
