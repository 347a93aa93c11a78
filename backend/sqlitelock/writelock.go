package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/interlock-go/interlock/internal/flock"
)

// writeLock lets one transaction at a time write to the file, over all processes. It is a lock on
// a file of its own: a goroutine that waits for it sleeps in the kernel until it is free, and it
// is free when its owner is dead. The goroutines of this process line up before that.
type writeLock struct {
	file *os.File
	gate chan struct{} // full while a goroutine of this process has the lock, or is the first

	mu     sync.Mutex
	asleep bool       // a goroutine waits in the kernel
	want   bool       // the first waits for it
	got    chan error // its result
}

func newWriteLock(f *os.File) *writeLock {
	return &writeLock{file: f, gate: make(chan struct{}, 1), got: make(chan error, 1)}
}

// errCrowd: the wait has ended while other goroutines of this process have had the lock.
var errCrowd = errors.New("many in this process write to the file")

// take waits for the lock until ctx ends, or patience does, or the client is closed (over).
func (l *writeLock) take(ctx context.Context, over <-chan struct{}) error {
	select {
	case l.gate <- struct{}{}:
	default:
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		select {
		case l.gate <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errCrowd, ctx.Err())
		case <-over:
			return errClosed
		}
	}
	err := l.lock(ctx, over)
	if err != nil {
		<-l.gate
	}
	return err
}

// lock is called by the first goroutine.
func (l *writeLock) lock(ctx context.Context, over <-chan struct{}) error {
	l.mu.Lock()
	if !l.asleep {
		if ok, err := flock.Try(l.file); ok || err != nil {
			l.mu.Unlock()
			return err
		}
		l.asleep = true
		go l.sleep()
	}
	l.want = true
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	why := errClosed
	select {
	case err := <-l.got:
		return err
	case <-ctx.Done():
		why = ctx.Err()
	case <-over:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.want { // it came just now
		return <-l.got
	}
	l.want = false
	return why
}

// sleep waits in the kernel, which cannot be broken off: if no request wants the lock any more
// when it comes, it goes back.
func (l *writeLock) sleep() {
	err := flock.Lock(l.file)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = false
	if l.want {
		l.want = false
		l.got <- err
	} else if err == nil {
		_ = flock.Unlock(l.file)
	}
}

// pass gives the lock back.
func (l *writeLock) pass() {
	_ = flock.Unlock(l.file)
	<-l.gate
}
