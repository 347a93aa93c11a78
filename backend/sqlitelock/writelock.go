package sqlitelock

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/flock"
)

// writeLock lets one transaction at a time write to the file, over all processes. It is a lock on
// a file of its own: a goroutine that waits for it sleeps in the kernel until it is free, and it
// is free when its owner is dead.
//
// The goroutines of this process wait for it in lanes. At most one of them, the first, waits in
// the kernel.
type writeLock struct {
	file *os.File
	over <-chan struct{} // closed by Close: no goroutine waits any more

	mu    sync.Mutex
	busy  bool             // a goroutine of this process has the lock or is the first
	lanes [lanes]list.List // of *request: those behind the first
	had   uint64           // how often this process has had the lock
	begun time.Time        // when the first began to wait
	rests bool             // only requests are called that leases depend on

	asleep bool       // a goroutine waits in the kernel
	want   bool       // the first waits for it
	got    chan error // its result
}

// lane is a line of requests. Those of an earlier lane go first.
type lane uint8

const (
	keeping lane = iota // Renew, Leave of a holder, End: leases depend on them
	leaving             // Leaves of waiters, which make room
	coming              // Joins and all else
	lanes
)

// request is a goroutine in a lane.
type request struct {
	called chan struct{} // closed when it is the first
	gone   bool          // it is not in its lane any more; guarded by writeLock.mu
}

func newWriteLock(f *os.File, over <-chan struct{}) *writeLock {
	return &writeLock{file: f, over: over, got: make(chan error, 1)}
}

// errCrowd: the wait has ended while other goroutines of this process have had the lock.
var errCrowd = errors.New("many in this process write to the file")

// take waits for the lock until ctx ends or patience does.
func (l *writeLock) take(ctx context.Context, in lane) error {
	l.mu.Lock()
	had := l.had
	if !l.busy && !(l.rests && in != keeping) {
		l.busy, l.begun = true, time.Now()
		l.mu.Unlock()
		if ok, err := l.try(); ok || err != nil {
			return l.taken(err)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return l.wait(ctx)
	}
	w := &request{called: make(chan struct{})}
	at := l.lanes[in].PushBack(w)
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var why error
	select {
	case <-w.called:
	case <-ctx.Done():
		why = ctx.Err()
	case <-l.over:
		why = errClosed
	}
	if why != nil {
		l.mu.Lock()
		if !w.gone {
			defer l.mu.Unlock()
			l.lanes[in].Remove(at)
			if l.had != had && why != errClosed {
				why = fmt.Errorf("%w: %w", errCrowd, why)
			}
			return why
		}
		l.mu.Unlock()
		<-w.called // at once
	}
	return l.wait(ctx)
}

// try takes the lock if it is free.
func (l *writeLock) try() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asleep {
		return false, nil
	}
	return flock.Try(l.file)
}

// wait waits for the lock; this caller is the first.
func (l *writeLock) wait(ctx context.Context) error {
	l.mu.Lock()
	if !l.asleep {
		if ok, err := flock.Try(l.file); ok || err != nil {
			l.mu.Unlock()
			return l.taken(err)
		}
		l.asleep = true
		go l.sleep()
	}
	l.want = true
	l.mu.Unlock()

	why := errClosed
	select {
	case err := <-l.got:
		return l.taken(err)
	case <-ctx.Done():
		why = ctx.Err()
	case <-l.over:
	}
	l.mu.Lock()
	l.want = false
	l.mu.Unlock()
	select {
	case err := <-l.got: // it came just now
		return l.taken(err)
	default:
		l.next()
		return why
	}
}

func (l *writeLock) taken(err error) error {
	if err != nil {
		l.next()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.had++
	return nil
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
	l.next()
}

// rest is called by the goroutine that has the lock, for a part of a crowd. After a full one it keeps the later lanes
// waiting, in proportion to how long the file was not free for it. So the file has time left for what the leases of all
// processes depend on, and a request that is given up meanwhile costs it nothing.
func (l *writeLock) rest(part int) {
	if part < together/4 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rests = true
	time.AfterFunc(min(8*time.Since(l.begun), longestRest), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rests = false
		if !l.busy {
			l.call()
		}
	})
}

// together bounds what a crowd does in one transaction, behind which all other clients wait.
const together = 32

const longestRest = 60 * time.Millisecond

// next calls the next of this process.
func (l *writeLock) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call()
}

// call is next with l.mu held.
func (l *writeLock) call() {
	l.busy, l.begun = true, time.Now()
	for in := range l.lanes {
		if e := l.lanes[in].Front(); e != nil && !(l.rests && lane(in) != keeping) {
			w := l.lanes[in].Remove(e).(*request)
			w.gone = true
			close(w.called)
			return
		}
	}
	l.busy = false
}

// close waits until no goroutine of this process has the lock, and lets none have it again.
func (l *writeLock) close() {
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return
	}
	last := &request{called: make(chan struct{})}
	l.lanes[keeping].PushBack(last)
	l.mu.Unlock()
	<-last.called
}
