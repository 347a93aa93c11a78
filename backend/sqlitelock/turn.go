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

// turn lets one transaction at a time write to the file, over all processes. It
// is a lock on a file of its own: those who wait for it sleep in the kernel until
// it is free, and it is free when its owner is dead.
//
// The goroutines of this process wait for it in lanes. At most one of them, the
// first, waits in the kernel.
type turn struct {
	file *os.File
	over <-chan struct{} // closed when nobody is to wait any more

	mu    sync.Mutex
	busy  bool             // somebody in this process has the turn or is the first
	lanes [lanes]list.List // of *waiter: those behind the first
	had   uint64           // turns that this process has had
	begun time.Time        // when the first began to wait
	rests bool             // only those are called that leases depend on

	asleep bool       // a goroutine waits in the kernel
	want   bool       // the first waits for it
	got    chan error // its result
}

// lane is a line of those who wait. Whoever stands in an earlier one goes first.
type lane uint8

const (
	keeping lane = iota // Renew, Leave of what is held, Close: leases depend on them
	leaving             // Leaves of those who wait, which make room
	coming              // Joins and all else
	lanes
)

// waiter is a goroutine in a lane.
type waiter struct {
	job    *job          // nil: nobody else can do it
	called chan struct{} // closed when it is the first, or its job is done
	gone   bool          // it is not in its lane any more; guarded by turn.mu
	done   bool          // its job is
}

// job is an exchange that whoever of its process has the turn can do together with its
// own, in one transaction.
type job struct {
	f      func(*tx) error
	err    error
	open   bool // it may have been committed
	waiter *waiter
}

func newTurn(f *os.File, over <-chan struct{}) *turn {
	return &turn{file: f, over: over, got: make(chan error, 1)}
}

// errCrowd: the wait has ended while others of this process have had the turn.
var errCrowd = errors.New("many in this process write to the file")

// take waits until it is this caller's turn, ctx ends or patience does. It returns
// false if somebody else has done the job.
func (t *turn) take(ctx context.Context, in lane, j *job) (mine bool, err error) {
	t.mu.Lock()
	had := t.had
	if !t.busy && !(t.rests && in != keeping) {
		t.busy, t.begun = true, time.Now()
		t.mu.Unlock()
		if ok, err := t.try(); ok || err != nil {
			return true, t.taken(err)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return true, t.wait(ctx)
	}
	w := &waiter{job: j, called: make(chan struct{})}
	if j != nil {
		j.waiter = w
	}
	at := t.lanes[in].PushBack(w)
	t.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var why error
	select {
	case <-w.called:
	case <-ctx.Done():
		why = ctx.Err()
	case <-t.over:
		why = errClosed
	}
	if why != nil {
		t.mu.Lock()
		if !w.gone {
			t.lanes[in].Remove(at)
			if t.had != had && why != errClosed {
				why = fmt.Errorf("%w: %w", errCrowd, why)
			}
			t.mu.Unlock()
			return true, why
		}
		t.mu.Unlock()
		<-w.called // at once, or after the transaction that it is part of
	}
	if w.done {
		return false, nil
	}
	return true, t.wait(ctx)
}

// try takes the turn if nobody has it.
func (t *turn) try() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asleep {
		return false, nil
	}
	return flock.Try(t.file)
}

// wait waits for the turn; this caller is the first.
func (t *turn) wait(ctx context.Context) error {
	t.mu.Lock()
	if !t.asleep {
		if ok, err := flock.Try(t.file); ok || err != nil {
			t.mu.Unlock()
			return t.taken(err)
		}
		t.asleep = true
		go t.sleep()
	}
	t.want = true
	t.mu.Unlock()

	why := errClosed
	select {
	case err := <-t.got:
		return t.taken(err)
	case <-ctx.Done():
		why = ctx.Err()
	case <-t.over:
	}
	t.mu.Lock()
	t.want = false
	t.mu.Unlock()
	select {
	case err := <-t.got: // it came just now
		return t.taken(err)
	default:
		t.next()
		return why
	}
}

func (t *turn) taken(err error) error {
	if err != nil {
		t.next()
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.had++
	return nil
}

// sleep waits in the kernel, which cannot be broken off: if nobody wants the turn any
// more when it comes, it goes back.
func (t *turn) sleep() {
	err := flock.Lock(t.file)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asleep = false
	if t.want {
		t.want = false
		t.got <- err
	} else if err == nil {
		_ = flock.Unlock(t.file)
	}
}

// gather takes jobs out of the lanes, for the one who has the turn and comes from a lane
// itself. What leases depend on comes first, and does not wait for a crowd in the same
// transaction.
func (t *turn) gather(in lane) (first, rest []*job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = t.jobs(keeping, batch)
	if in != keeping && len(first) == 0 {
		rest = t.jobs(leaving, together-1)
		rest = append(rest, t.jobs(coming, together-1-len(rest))...)
		if len(rest) >= together/4 {
			t.rest(8 * time.Since(t.begun))
		}
	}
	return first, rest
}

// together bounds what a crowd does in one transaction, behind which all others wait.
const together = 32

// jobs takes up to so many from the front of a lane. t.mu is held.
func (t *turn) jobs(in lane, most int) (all []*job) {
	for e := t.lanes[in].Front(); e != nil && len(all) < most; e = t.lanes[in].Front() {
		w := e.Value.(*waiter)
		if w.job == nil {
			break
		}
		t.lanes[in].Remove(e)
		w.gone = true
		all = append(all, w.job)
	}
	return all
}

// finish tells those who wait for the jobs that these are done.
func (t *turn) finish(jobs []*job, own *job) {
	for _, j := range jobs {
		if j != own {
			j.waiter.done = true
			close(j.waiter.called)
		}
	}
}

// pass ends the turn.
func (t *turn) pass() {
	_ = flock.Unlock(t.file)
	t.next()
}

// rest keeps the last lane waiting, after a whole batch, for as long as the file was not
// free for it: of all processes the file has time left for what leases depend on, and
// whoever gives up meanwhile has cost it nothing. t.mu is held.
func (t *turn) rest(d time.Duration) {
	t.rests = true
	time.AfterFunc(min(d, longestRest), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.rests = false
		if !t.busy {
			t.call()
		}
	})
}

const longestRest = 60 * time.Millisecond

// next calls the next of this process.
func (t *turn) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call()
}

// call is next with t.mu held.
func (t *turn) call() {
	t.busy, t.begun = true, time.Now()
	for in := range t.lanes {
		if e := t.lanes[in].Front(); e != nil && !(t.rests && lane(in) != keeping) {
			w := t.lanes[in].Remove(e).(*waiter)
			w.gone = true
			close(w.called)
			return
		}
	}
	t.busy = false
}

// close waits until nobody in this process has the turn, and lets nobody have it again.
func (t *turn) close() {
	t.mu.Lock()
	if !t.busy {
		t.busy = true
		t.mu.Unlock()
		return
	}
	last := &waiter{called: make(chan struct{})}
	t.lanes[keeping].PushBack(last)
	t.mu.Unlock()
	<-last.called
}
