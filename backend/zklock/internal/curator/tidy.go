package curator

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
)

// tidy makes sure that the tickets of a session that was closed are gone. If its
// connection was lost just then, no server knows of the end: the tickets would stand
// until the timeout. They are removed over another connection, also when the caller does
// not wait for it any more.
func (s *session) tidy(limit context.Context) error {
	if !s.l.Own || s.l.Closed() {
		return nil
	}
	done := make(chan struct{})
	if !s.d.background(func(ctx context.Context) {
		defer close(done)
		for s.removeAll(ctx) != nil && ctx.Err() == nil {
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
		}
	}) {
		return errClosed
	}
	select {
	case <-done:
		return nil
	case <-limit.Done():
		return limit.Err()
	}
}

func (s *session) removeAll(ctx context.Context) error {
	l, err := s.d.link(ctx)
	if err != nil {
		return err
	}
	type ticket struct {
		q        *lane
		id, node string
	}
	var all []ticket
	paths := []string{s.post}
	s.mu.Lock()
	for id, p := range s.places {
		if p.fixed {
			continue
		}
		all = append(all, ticket{p.q, id, p.n.node})
		for _, node := range p.loan.nodes {
			paths = append(paths, p.q.leases.path+"/"+node)
		}
	}
	s.mu.Unlock()
	for _, t := range all {
		if t.node == "" { // its creation had no answer
			if err := l.CatchUp(ctx, t.q.path); err != nil {
				return err
			}
			found, err := l.List(ctx, t.q.path, false)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			line := parseAll(found.Names)
			i, ok := line.place(t.id)
			if !ok {
				continue
			}
			t.node = line[i].node
		}
		paths = append(paths, t.q.path+"/"+t.node)
	}
	for _, path := range paths {
		if err := l.Remove(ctx, path); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}
