package curator

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
)

// withdrawals are tickets that wait and are to be removed. Such a ticket leaves no mark, so that
// many can leave in one transaction, while the one before is under way.
type withdrawals struct {
	running bool
	due     []*withdrawal
	known   map[string]*withdrawal // by path: those that are due or under way
}

type withdrawal struct {
	path string
	done chan struct{}
	err  error
}

// A transaction removes no more nodes, and no more bytes of names, than this.
const (
	mostWithdrawn      = 256
	mostWithdrawnBytes = 128 << 10
)

// leaveLine removes the node of a ticket that waits. Whoever asks for that again, since it took
// too long, waits for the same.
func (s *session) leaveLine(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	all := &s.leaving
	w := all.known[path]
	if w == nil {
		w = &withdrawal{path: path, done: make(chan struct{})}
		if all.known == nil {
			all.known = map[string]*withdrawal{}
		}
		all.known[path] = w
		all.due = append(all.due, w)
		if !all.running {
			all.running = true
			go s.leaveAll()
		}
	}
	s.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaveAll goes on until nobody wants to leave any more.
func (s *session) leaveAll() {
	for {
		s.mu.Lock()
		due := s.leaving.due
		n, bytes := 0, 0
		for n < len(due) && n < mostWithdrawn && (n == 0 || bytes+len(due[n].path) <= mostWithdrawnBytes) {
			bytes += len(due[n].path)
			n++
		}
		s.leaving.due = due[n:]
		s.leaving.running = n > 0
		s.mu.Unlock()
		if n == 0 {
			return
		}
		s.leaveTogether(due[:n])
		s.mu.Lock()
		for _, w := range due[:n] {
			delete(s.leaving.known, w.path)
			close(w.done)
		}
		s.mu.Unlock()
	}
}

// leaveTogether removes all. A transaction fails as a whole if one of its nodes is gone, or may
// not be removed: then each is removed by itself, as many at a time as Joins are made.
func (s *session) leaveTogether(all []*withdrawal) {
	if len(all) > 1 {
		ops := make([]any, len(all))
		for i, w := range all {
			ops[i] = &zk.Delete{Path: w.path, Version: -1}
		}
		_, err := s.l.Conn.Multi(ops...)
		if err == nil || !sure(err) {
			for _, w := range all {
				w.err = err
			}
			return
		}
	}
	var under sync.WaitGroup
	free := make(chan struct{}, zk.CrowdSlots)
	for _, w := range all {
		free <- struct{}{}
		under.Go(func() {
			w.err = s.l.Conn.Delete(w.path, -1)
			<-free
		})
	}
	under.Wait()
}
