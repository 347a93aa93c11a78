//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/flock"
	"github.com/interlock-go/interlock/internal/trust"
)

// locks are the files that this client has locked, or tries to lock, by ID of the ticket. Each has
// an open file of its own, so that the kernel keeps them apart. An end of the process ends them.
type locks struct {
	s      *store
	mu     sync.Mutex
	files  map[string]*locked
	closed bool

	timer  *time.Timer // fires when the first of the tickets may have expired
	first  time.Time   // then
	lapses sync.WaitGroup
}

type locked struct {
	queue string
	end   time.Time // guarded by locks.mu

	mu   sync.Mutex
	file *os.File
	id   trust.ID
	has  bool // the lock
	over bool // the ticket does not stand any more
}

// take locks the file of a queue for a ticket, unless another program has locked it. Then the file
// stays open: to close it would be news for those who watch it. Idle is a file that is open, or nil.
func (l *locks) take(queue, id string, exclusive bool, end time.Time, idle **locked) (has bool, err error) {
	f, err := l.of(queue, id, end, idle)
	if err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
		return false, nil
	case f.has:
		return true, nil
	}
	if err = l.try(f, exclusive); err == nil && !f.has && l.s.watch.add(f.file, queue, id) {
		err = l.try(f, exclusive) // it may have been unlocked before it was watched
	}
	if err != nil {
		f.close()
	}
	return f.has, err
}

// of returns the file for a ticket, and has the timer fire at its end.
func (l *locks) of(queue, id string, end time.Time, idle **locked) (*locked, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	f := l.files[id]
	if f == nil {
		if f, *idle = *idle, nil; f == nil {
			f = &locked{queue: queue}
		}
		l.files[id] = f
	}
	f.end = end
	l.setTimer(end)
	return f, nil
}

// try tries to lock the file that has the name now.
func (l *locks) try(f *locked, exclusive bool) (err error) {
	path := l.s.dir.lockFile(f.queue)
	for range 100 {
		if f.file == nil {
			if f.file, _, err = l.s.dir.open(top, escape(f.queue), os.O_RDONLY); err != nil {
				return err
			}
			if f.id, err = trust.IDOf(f.file); err != nil {
				return err
			}
		}
		if exclusive {
			f.has, err = flock.Try(f.file)
		} else {
			f.has, err = flock.TryShared(f.file)
		}
		if err != nil || isOf(f.id, path) {
			return err
		}
		f.file.Close()
		f.file, f.has = nil, false
	}
	return fmt.Errorf("%s is replaced all the time", path)
}

// share turns an exclusive lock into a shared one. Where the kernel does not do that in one step,
// another program may come first; then the lock is lost.
func (l *locks) share(id string) bool {
	f := l.get(id)
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has {
		f.has, _ = flock.TryShared(f.file)
	}
	return f.has
}

// intact reports false if the file of a holder was removed or replaced: then others lock another
// file.
func (l *locks) intact(id string) bool {
	f := l.get(id)
	if f == nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.has || isOf(f.id, l.s.dir.lockFile(f.queue))
}

func (l *locks) get(id string) *locked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[id]
}

// until notes the end of a ticket.
func (l *locks) until(id string, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[id]; f != nil {
		f.end = end
		l.setTimer(end)
	}
}

// setTimer has the timer fire at an end, or earlier.
func (l *locks) setTimer(end time.Time) {
	if l.closed || l.timer != nil && !l.first.After(end) {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.first = end
	l.timer = time.AfterFunc(max(end.Sub(l.s.now()), time.Millisecond), l.lapseAll)
}

// lapseAll is called by the timer.
func (l *locks) lapseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.s.now()
	l.timer = nil
	for id, f := range l.files {
		switch {
		case l.closed:
		case f.end.After(now):
			l.setTimer(f.end)
		default:
			l.lapses.Go(func() { l.lapse(id, f) })
		}
	}
}

// release is called for each ticket that does not stand any more. It unlocks the file also for
// children that have just been forked, which a close would not.
func (l *locks) release(id string) {
	if f := l.forget(id); f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.over = true
		f.unlock()
		f.close()
	}
}

// leave is release for a ticket that its own client takes out. The file stays open, for the next one.
func (l *locks) leave(id string, idle **locked) {
	f := l.forget(id)
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unlock(); *idle == nil {
		*idle = f
	} else {
		f.close()
	}
}

func (l *locks) forget(id string) *locked {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	delete(l.files, id)
	return f
}

func (f *locked) unlock() {
	if f.has {
		_ = flock.Unlock(f.file)
	}
	f.has = false
}

func (f *locked) close() {
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.has = nil, false
}

// lapse is called when a ticket may have expired without its session having noticed: nothing else
// would unlock the file.
func (l *locks) lapse(id string, f *locked) {
	ctx, cancel := context.WithTimeout(l.s.ctx, time.Second)
	defer cancel()
	var end time.Time
	err := l.s.change(ctx, f.queue, func(x *queueTx) error {
		if t := x.Ticket(id); t == nil {
			l.release(id)
		} else {
			end = t.End
		}
		return nil
	})
	now := l.s.now()
	l.mu.Lock()
	last := l.files[id] == f && err != nil && !f.end.After(now) // the row cannot be read, and proves nothing for the holder any more
	if l.files[id] == f && !last {
		if end.After(f.end) {
			f.end = end
		}
		l.setTimer(f.end)
	}
	l.mu.Unlock()
	if last {
		l.release(id)
	}
}

// close gives up all.
func (l *locks) close() {
	l.mu.Lock()
	l.closed = true
	all := slices.Collect(maps.Keys(l.files))
	l.mu.Unlock()
	for _, id := range all {
		l.release(id)
	}
	l.lapses.Wait()
}
