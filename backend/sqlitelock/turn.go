package sqlitelock

import (
	"context"
	"os"
	"sync"

	"github.com/interlock-go/interlock/internal/flock"
)

// turn lets one transaction at a time write to the file, over all processes. It
// is a lock on a file of its own: those who wait for it sleep in the kernel until
// it is free, and it is free when its owner is dead.
type turn struct {
	file *os.File
	done <-chan struct{} // closed when nobody is to wait any more
	slot chan struct{}   // full while somebody in this process has the turn or is next

	mu     sync.Mutex
	asleep bool       // a goroutine waits in the kernel
	want   bool       // whoever has the slot waits for it
	got    chan error // its result
}

func newTurn(f *os.File, done <-chan struct{}) *turn {
	return &turn{file: f, done: done, slot: make(chan struct{}, 1), got: make(chan error, 1)}
}

// take waits until it is this caller's turn, ctx ends or patience does. A wait in
// the kernel cannot be broken off, so a goroutine does it and, if nobody wants the
// turn any more when it comes, gives it back.
func (t *turn) take(ctx context.Context) error {
	first := false
	select {
	case t.slot <- struct{}{}:
		first = true
		if ok, err := t.try(); ok || err != nil {
			return t.taken(err)
		}
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !first {
		select {
		case t.slot <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-t.done:
			return errClosed
		}
	}
	return t.wait(ctx)
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

// wait waits for the turn; this caller has the slot.
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
	case <-t.done:
	}
	t.mu.Lock()
	t.want = false
	t.mu.Unlock()
	select {
	case err := <-t.got: // it came just now
		return t.taken(err)
	default:
		<-t.slot
		return why
	}
}

func (t *turn) taken(err error) error {
	if err != nil {
		<-t.slot
	}
	return err
}

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

// pass ends the turn.
func (t *turn) pass() {
	_ = flock.Unlock(t.file)
	<-t.slot
}
