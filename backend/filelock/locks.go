//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/flock"
)

// locks are the files that this client has locked, or tries to lock, by ID of the ticket. Each has
// an open file of its own, so that the kernel keeps them apart. An end of the process ends them.
type locks struct {
	s     *store
	mu    sync.Mutex
	files map[string]*locked
}

type locked struct {
	queue string
	end   time.Time   // of the ticket; guarded by locks.mu
	timer *time.Timer // calls lapse then

	mu sync.Mutex
	handle
	has  bool // the lock
	over bool // the ticket does not stand any more
}

// take locks the file of a queue for a ticket, unless another program has locked it. Then the file
// stays open: to close it would be news for those who watch it.
func (l *locks) take(q *queue, t *rows.Ticket) (has bool, err error) {
	l.mu.Lock()
	f := l.files[t.ID]
	if l.files == nil { // its client is closed
		l.mu.Unlock()
		return false, nil
	}
	if f == nil {
		f = &locked{queue: q.Name, handle: q.file.idle, timer: time.AfterFunc(time.Hour, func() { l.lapse(t.ID) })}
		l.files[t.ID], q.file.idle.file = f, nil
	}
	l.mu.Unlock()
	l.until(t.ID, q.now, t.End)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.has {
		return f.has, nil
	}
	try := flock.TryShared
	if t.Units == q.Capacity {
		try = flock.Try
	}
	if f.has, err = f.lock(l.s.dir, try); err == nil && !f.has && l.s.watch.add(f.file, q.Name) {
		f.has, err = f.lock(l.s.dir, try) // it may have been unlocked before it was watched
	}
	return f.has, err
}

// share turns an exclusive lock into a shared one. Where the kernel does not do that in one step,
// another program may come first; then the lock is lost.
func (l *locks) share(id string) bool {
	f := l.get(id)
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
	defer f.mu.Unlock()
	return !f.has || f.stands()
}

// get returns the file of a ticket, with its mutex locked, or one that has no lock.
func (l *locks) get(id string) *locked {
	l.mu.Lock()
	f := cmp.Or(l.files[id], &locked{})
	l.mu.Unlock()
	f.mu.Lock()
	return f
}

// until notes the end of a ticket.
func (l *locks) until(id string, now, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[id]; f != nil {
		f.end = end
		f.timer.Reset(max(end.Sub(now), time.Millisecond))
	}
}

// release is called for each ticket that does not stand any more.
func (l *locks) release(id string) {
	var f handle
	l.leave(id, &f)
	f.close()
}

// leave is release in a transaction of this process. The file stays open, for the next one. It is
// unlocked also for children that have just been forked, which a close would not do.
func (l *locks) leave(id string, idle *handle) {
	l.mu.Lock()
	f := l.files[id]
	delete(l.files, id)
	l.mu.Unlock()
	if f != nil {
		f.leave(idle)
	}
}

func (f *locked) leave(idle *handle) {
	f.timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has {
		_ = flock.Unlock(f.file)
	}
	f.has, f.over = false, true
	idle.close()
	*idle = f.handle
}

// lapse is called by the timer when a ticket may have expired without its session having noticed: nothing
// else would unlock the file.
func (l *locks) lapse(id string) {
	l.mu.Lock()
	f := l.files[id]
	l.mu.Unlock()
	if f == nil || !l.s.begin() {
		return
	}
	defer l.s.transactions.Done()
	ctx, cancel := context.WithTimeout(l.s.ctx, time.Second)
	defer cancel()
	err := l.s.change(ctx, f.queue, func(q *queue) error {
		if t := q.find(id); t != nil {
			l.until(id, q.now, t.End)
		}
		return nil
	})
	l.mu.Lock()
	last := err != nil && !f.end.After(l.s.now())
	l.mu.Unlock()
	if last { // the row cannot be read, and proves nothing for the holder any more
		l.release(id)
	}
}

// close gives up all. Nothing is locked from then on.
func (l *locks) close() {
	l.mu.Lock()
	all := l.files
	l.files = nil
	l.mu.Unlock()
	for _, f := range all {
		var h handle
		f.leave(&h)
		h.close()
	}
}
