package zklock

import (
	"context"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Leave removes the node of a ticket.
func (s *store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	return false, s.in(ctx, l.Session.ID, func(ctx context.Context, o *session) error {
		q := s.queue(l.Queue)
		if t := o.entry(l.ID); t != nil && t.q.name == q.name {
			return t.recipe.quit(ctx, l.Clean)
		}
		o.mu.Lock()
		o.buried.Add(l.ID)
		o.mu.Unlock()
		return certain(ctx, o.l, q, func() error {
			return anew(func() error { return s.dismiss(ctx, o.l, q, l.ID, l.Clean) })
		})
	})
}

// quit takes the ticket out of its queue. A ticket whose creation had no answer is
// looked for once nothing more can come of that.
func (t *entry) quit(ctx context.Context, clean bool) error {
	s := t.s
	if err := t.settle(ctx); err != nil {
		return err
	}
	now := t.now()
	if now.ended {
		return driver.ErrGone
	}
	mark := now.mark.when(clean && now.state == exchange.Held)
	err := t.removeNode(ctx, s.l, now.key, func(key *ticket) error { return s.store.take(ctx, s.l, t.q, key, mark) })
	if zk.Unless(err, driver.ErrGone) == nil {
		t.forgotten()
	}
	return err
}

// abandon removes the node of a ticket, by any connection, unless it is to outlive its session.
func (t *entry) abandon(ctx context.Context, l *link) error {
	if err := t.settle(ctx); err != nil {
		return err
	}
	return zk.Unless(t.removeAny(ctx, l, t.now().key), driver.ErrGone)
}

func (t *entry) removeAny(ctx context.Context, l *link, key *ticket) error {
	return t.removeNode(ctx, l, key, func(key *ticket) error {
		if key.until != 0 {
			return nil
		}
		return l.Remove(ctx, t.q.path+"/"+key.node)
	})
}

// removeNode removes the node of a ticket, which may have another name than is known, from a call without an answer or by
// another client. It is ErrGone if there is none.
func (t *entry) removeNode(ctx context.Context, l *link, key *ticket, remove func(*ticket) error) error {
	return anew(func() (err error) {
		if key == nil {
			key, err = t.locate(ctx, l)
		}
		if err == nil && key == nil {
			err = driver.ErrGone
		}
		if err == nil {
			err = stale(remove(key))
			key = nil
		}
		return err
	})
}

// dismiss removes a ticket of another session, which must have a fixed end.
func (s *store) dismiss(ctx context.Context, l *link, q *queue, id string, clean bool) error {
	f, err := s.readAny(ctx, l, q)
	if err != nil {
		return err
	}
	key, ok := f.Find(id)
	if !ok {
		return driver.ErrGone
	}
	c, err := l.Get(ctx, q.path+"/"+key.node)
	if err != nil {
		return stale(err)
	}
	if !f.fixed(key, c) {
		return driver.ErrGone
	}
	p := f.Place(key)
	return stale(s.take(ctx, l, q, key, markOf(&p, freshVersion).when(clean)))
}

// fixed reports whether a ticket has a fixed end, or gets one as soon as its
// session notices that it is held.
func (f *listing) fixed(t *ticket, c zk.Content) bool {
	m, ok := decode(c.Data)
	p := f.Place(t)
	return t.until != 0 || ok && m.Hold && p.Held
}
