//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/flock"
	"github.com/interlock-go/interlock/internal/trust"
)

// locks are the files that this client has locked, or tries to lock, by ID of the ticket. Each has
// an open file of its own, so that the kernel keeps them apart. An end of the process ends them.
type locks struct {
	s      *store
	mu     sync.Mutex
	files  map[string]*locked // nil: closed
	lapses sync.WaitGroup
}

type locked struct {
	queue string
	end   time.Time // of the ticket; guarded by locks.mu
	timer *time.Timer

	mu sync.Mutex
	lockFile
	has  bool // the lock
	over bool // the ticket does not stand any more
}

// lockFile is a file that other programs lock, too. Its file is nil if it is not open.
type lockFile struct {
	file *os.File
	id   trust.ID
}

func (f *lockFile) close() {
	if f.file != nil {
		f.file.Close()
	}
	f.file = nil
}

// take locks the file of a queue for a ticket, unless another program has locked it. Then the file
// stays open: to close it would be news for those who watch it.
func (l *locks) take(q *queue, t *rows.Ticket) (has bool, err error) {
	exclusive, idle := t.Units == q.Capacity, &q.file.idle
	l.mu.Lock()
	f := l.files[t.ID]
	switch {
	case l.files == nil:
		l.mu.Unlock()
		return false, errClosed
	case f == nil:
		f = &locked{queue: q.Name, lockFile: *idle}
		f.timer = time.AfterFunc(time.Hour, func() { l.lapse(t.ID, f) })
		l.files[t.ID], *idle = f, lockFile{}
	}
	l.mu.Unlock()
	l.until(t.ID, q.now, t.End)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.has {
		return f.has, nil
	}
	if err = l.try(f, exclusive); err == nil && !f.has && l.s.watch.add(f.file, q.Name) {
		err = l.try(f, exclusive) // it may have been unlocked before it was watched
	}
	if err != nil {
		f.close()
		f.has = false
	}
	return f.has, err
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
		f.close()
		f.has = false
	}
	return fmt.Errorf("%s is replaced all the time", path)
}

// share turns an exclusive lock into a shared one. Where the kernel does not do that in one step,
// another program may come first; then the lock is lost.
func (l *locks) share(id string) (has bool) {
	if f := l.get(id); f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.has {
			f.has, _ = flock.TryShared(f.file)
		}
		has = f.has
	}
	return has
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
func (l *locks) until(id string, now, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[id]
	if f == nil {
		return
	}
	f.end = end
	f.timer.Reset(max(end.Sub(now), time.Millisecond))
}

// release is called for each ticket that does not stand any more.
func (l *locks) release(id string) {
	var f lockFile
	l.leave(id, &f)
	f.close()
}

// leave is release for a ticket that its own client takes out. The file stays open, for the next one.
func (l *locks) leave(id string, idle *lockFile) {
	l.mu.Lock()
	f := l.files[id]
	delete(l.files, id)
	l.mu.Unlock()
	if f != nil {
		f.release()
		idle.close()
		*idle = f.lockFile
	}
}

// release unlocks the file also for children that have just been forked, which a close would not.
func (f *locked) release() {
	f.timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has {
		_ = flock.Unlock(f.file)
	}
	f.has, f.over = false, true
}

// lapse is called by the timer when a ticket may have expired without its session having noticed: nothing
// else would unlock the file.
func (l *locks) lapse(id string, f *locked) {
	l.mu.Lock()
	if l.files[id] != f {
		l.mu.Unlock()
		return
	}
	l.lapses.Add(1)
	l.mu.Unlock()
	defer l.lapses.Done()
	ctx, cancel := context.WithTimeout(l.s.ctx, time.Second)
	defer cancel()
	err := l.s.change(ctx, f.queue, func(q *queue) error {
		if t := q.find(id); t != nil {
			l.until(id, q.now, t.End)
		}
		return nil
	})
	l.mu.Lock()
	last := err != nil && l.files[id] == f && !f.end.After(l.s.now())
	l.mu.Unlock()
	if last { // the row cannot be read, and proves nothing for the holder any more
		l.release(id)
	}
}

// close gives up all.
func (l *locks) close() {
	l.mu.Lock()
	all := l.files
	l.files = nil
	l.mu.Unlock()
	for _, f := range all {
		f.release()
		f.close()
	}
	l.lapses.Wait()
}
