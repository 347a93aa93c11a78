package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// A listing is one look at a queue for all tickets of a session that have asked
// for one before it began: when a writer leaves, thousands of readers ask at once.
type listing struct {
	done chan struct{}
	all  line // nobody changes it
	lent bool // there are folders of a semaphore
	stat *zk.Stat
	at   uint64 // the connection
	err  error
}

// listings are those of one queue that run and are due.
type listings struct{ running, due *listing }

// listed lists the queue, not before it is called. It returns zk.ErrNoNode if
// there is none.
func (s *session) listed(ctx context.Context, q *lane) (*listing, error) {
	s.mu.Lock()
	r := s.listings[q]
	var l *listing
	switch {
	case r == nil:
		l = &listing{done: make(chan struct{})}
		s.listings[q] = &listings{running: l}
		go s.list(q, l)
	case r.due == nil:
		l = &listing{done: make(chan struct{})}
		r.due = l
	default:
		l = r.due
	}
	s.mu.Unlock()
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *session) list(q *lane, l *listing) {
	ctx, cancel := s.within(context.Background())
	defer cancel()
	for l != nil {
		err := errStale
		for errors.Is(err, errStale) {
			var c children
			if c, err = s.l.list(ctx, q.path, false); err == nil {
				l.stat, l.at, l.lent = c.stat, c.epoch, s.d.lent(c.names)
				l.all, err = s.d.standing(ctx, s.l, q, parseAll(c.names))
			}
		}
		if l.err = err; err != nil && !errors.Is(err, zk.ErrNoNode) {
			l.err = s.failed(context.Background(), err)
		}
		close(l.done)
		s.mu.Lock()
		r := s.listings[q]
		l = r.due
		r.running, r.due = l, nil
		if l == nil {
			delete(s.listings, q)
		}
		s.mu.Unlock()
	}
}
