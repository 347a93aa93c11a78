package curator

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
)

// A listing is one look at a queue for all tickets of a session that have asked
// for one before it began: when a writer leaves, thousands of readers ask at once.
type listing struct {
	done chan struct{}
	all  line // nobody changes it
	same bool // all ask for the same kind and capacity, of this library
	set  setting
	lent bool // there are folders of a semaphore
	Stat *zk.Stat
	at   uint64 // the connection
	err  error
}

// listings are those of one queue that run and are due.
type listings struct {
	running, due *listing
	hurry        chan struct{} // rung by a ticket near the front
}

// listed lists the queue, not before it is called. It returns zk.ErrNoNode if
// there is none.
func (s *session) listed(ctx context.Context, q *lane, hurry bool) (*listing, error) {
	s.mu.Lock()
	r := s.listings[q]
	var l *listing
	switch {
	case r == nil:
		l = &listing{done: make(chan struct{})}
		r = &listings{running: l, hurry: make(chan struct{}, 1)}
		s.listings[q] = r
		go s.list(q, l)
	case r.due == nil:
		l = &listing{done: make(chan struct{})}
		r.due = l
	default:
		l = r.due
	}
	if hurry {
		ring(r.hurry)
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
		began := s.d.Now()
		err := errStale
		for errors.Is(err, errStale) {
			var c zk.Children
			if c, err = s.l.List(ctx, q.path, false); err == nil {
				l.Stat, l.at, l.lent = c.Stat, c.Epoch, s.d.lent(c.Names)
				l.all, l.set, err = s.d.settled(ctx, s.l, q, c.Names)
				l.same = l.all.same()
			}
		}
		if l.err = err; err != nil && !errors.Is(err, zk.ErrNoNode) {
			l.err = s.failed(context.Background(), err)
		}
		close(l.done)
		if len(l.all) > crowdLine {
			s.spare(ctx, q, s.d.Now().Sub(began))
		}
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

const (
	crowdLine = 100 // so long is a line whose list costs more than a round trip
	nearFront = 16  // a ticket with fewer in front may soon be held
)

// spare keeps from listing a long line again for as long as that took, unless a ticket near the
// front asks: whoever asks meanwhile shares the next list.
func (s *session) spare(ctx context.Context, q *lane, took time.Duration) {
	s.mu.Lock()
	hurry := s.listings[q].hurry
	s.mu.Unlock()
	timer := time.NewTimer(min(took, s.ttl/20))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case <-ctx.Done():
	}
}
