package zklock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Shrink gives the ticket another name. As with Curator, a writer that becomes a
// reader keeps its number.
func (s *store) Shrink(ctx context.Context, row exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	return false, s.change(ctx, row, ref, func(ctx context.Context, _ *session, t *entry) error {
		switch {
		case t == nil:
			return driver.ErrGone
		case !t.isOld():
			return zk.ErrConnectionClosed
		}
		return t.recipe.shrink(ctx, units)
	})
}

func (t *entry) shrink(ctx context.Context, units int64) error {
	return t.rename(ctx, 0, func(next *ticket) { next.Units = min(next.Units, units) })
}

// Keep gives a holder a fixed end, or a ticket of another session that has one another end.
func (s *store) Keep(ctx context.Context, row exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, row, ref, func(ctx context.Context, o *session, t *entry) error {
		if t != nil {
			return t.recipe.keep(ctx, d)
		}
		longer := false
		err := s.refix(ctx, o.l, s.queue(ref.Queue), ref.ID, d, func(t *ticket, now int64, _ meta) {
			if longer = t.evicted && now+ceil(d) > t.until; !longer {
				t.until = now + ceil(d)
			}
		})
		if err == nil && longer {
			err = driver.ErrGone
		}
		return err
	})
}

func (t *entry) keep(ctx context.Context, d time.Duration) error {
	if t.now().state == exchange.Waiting {
		if err := t.s.l.CatchUp(ctx, t.q.path); err != nil {
			return err
		}
		if _, err := t.look(ctx); err != nil {
			return err
		}
	}
	switch t.now().state {
	case exchange.Held:
		return t.fix(ctx, d, t.j.Hold == 0, false)
	case exchange.Waiting:
		return exchange.ErrNotHeld
	}
	return driver.ErrGone
}

// change changes a ticket; it has no entry if it is of another session.
func (s *store) change(ctx context.Context, row exchange.Session, ref exchange.Ref, f func(context.Context, *session, *entry) error) error {
	return s.in(ctx, row.ID, func(ctx context.Context, o *session) error {
		t := o.entry(ref.ID)
		if t == nil || t.q.name != ref.Queue {
			return f(ctx, o, nil)
		}
		if err := t.turn.Take(ctx); err != nil {
			return err
		}
		defer t.turn.Give()
		return f(ctx, o, t)
	})
}

// rename replaces the node of a ticket of this session by one that next makes of it; fixed is how long the fixed time
// is that then begins, if one does.
func (t *entry) rename(ctx context.Context, fixed time.Duration, next func(*ticket)) error {
	s := t.s
	s.mu.Lock()
	key, own, token := t.key, t.own, t.token
	t.own = nil
	s.mu.Unlock()
	s.l.Ignore(own)
	to, err := s.store.rename(ctx, s.l, t.q, t.j.ID, key, func(_ *listing, to *ticket, c zk.Content, m *meta) bool {
		if _, ours := decode(c.Data); !ours {
			*m = t.meta()
		}
		if m.Token == 0 {
			m.Token = token // 0 if no client has been told one
		}
		if fixed != 0 {
			m.Fixed = fixed
		}
		next(to)
		return true
	})
	s.mu.Lock()
	switch {
	case errors.Is(err, driver.ErrGone):
		t.forget()
	case err == nil:
		t.mark.leaves = t.mark.leaves && to.Units == key.Units
		t.key = to
	}
	t.resettle()
	s.mu.Unlock()
	t.lookAnew()
	return err
}

// rename changes a ticket as change says, which may be asked again, and returns it as it is then: another node takes
// its place in one transaction, with the same number. Whoever watches it first sees its data change, and so does not
// take it for gone. Key is how it was last seen; nil: it was not. False of change: it is none that may be changed.
func (s *store) rename(ctx context.Context, l *link, q *queue, id string, key *ticket, change func(f *listing, next *ticket, c zk.Content, m *meta) bool) (*ticket, error) {
	var f *listing
	var next ticket
	return &next, anew(func() (err error) {
		if key == nil {
			if f, err = s.readAny(ctx, l, q); err != nil {
				return err
			}
			if key, _ = f.Find(id); key == nil {
				return driver.ErrGone
			}
		}
		path := q.path + "/" + key.node
		c, err := l.Get(ctx, path)
		if err == nil {
			next = *key
			m, _ := decode(c.Data)
			if !change(f, &next, c, &m) {
				return driver.ErrGone
			}
			if next.node = next.numbered(key.node); next.node == key.node {
				return nil
			}
			if m.Joined == 0 {
				m.Joined, m.Zxid = c.Stat.Ctime, uint64(c.Stat.Czxid)
			}
			flags := int32(zk.Ephemeral)
			if next.Stays = next.until != 0; next.Stays {
				flags = zk.Persistent
			}
			_, err = l.Multi(ctx,
				&zk.Write{Path: path, Version: c.Stat.Version},
				&zk.Delete{Path: path, Version: -1},
				&zk.Create{Path: q.path + "/" + next.node, Data: m.encode(), Acl: s.acl, Flags: flags})
		}
		if errors.Is(err, zk.ErrNoNode) { // another client has changed it, or this was done by a call without an answer
			key = nil
			err = cmp.Or(l.CatchUp(ctx, q.path), err)
		}
		return stale(err)
	})
}

// resettle has the node of a holder watched; s.mu is held.
func (t *entry) resettle() {
	if t.state == exchange.Held && t.settled != nil {
		t.settled.Reset(settledAfter)
	}
}

// fix gives a ticket that is about to be held its end: a node that does not go
// with the session. It counts from before the server's clock is read.
func (t *entry) fix(ctx context.Context, hold time.Duration, kept, wanted bool) error {
	s := t.s
	now, sent, _, err := s.store.clock(ctx, s.l)
	if err != nil {
		return err
	}
	s.mu.Lock()
	evicted, again := t.evicted, t.state == exchange.Held
	longer := again && evicted && !t.fixed && hold > t.end.Sub(sent)
	whole := hold
	if evicted && !t.fixed {
		hold = max(min(hold, t.end.Sub(sent)), 0)
	}
	s.mu.Unlock()
	if longer {
		return driver.ErrGone // nothing makes an evicted ticket last longer
	}
	until := int64(0)
	err = t.rename(ctx, whole, func(next *ticket) {
		if longer = again && next.evicted && next.until != 0 && now+ceil(hold) > next.until; longer {
			return
		}
		next.until, next.kept, next.evicted = now+ceil(hold), kept, next.evicted || evicted
		until = next.until
	})
	if err != nil {
		return err
	}
	if longer {
		return driver.ErrGone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ended {
		return driver.ErrGone
	}
	t.fixed, t.stray, t.hold, t.until = true, false, whole, until
	t.endsAt(sent.Add(hold))
	if t.evicted && !evicted { // meanwhile
		s.background(t.evict)
	}
	t.granted(wanted)
	return nil
}

// evict moves the end of a ticket with a fixed one up.
func (t *entry) evict(ctx context.Context) {
	retry(ctx, again, func() error { return zk.Unless(t.s.store.evict(ctx, t.s.l, t.q, t.j.ID), driver.ErrGone) })
}

func (s *store) evict(ctx context.Context, l *link, q *queue, id string) error {
	return s.refix(ctx, l, q, id, 0, func(t *ticket, now int64, m meta) {
		if t.evicted = true; !m.Hold {
			t.until = min(t.until, now+ceil(m.TTL))
		}
	})
}

// isFixed notes the end that the node of a ticket has: from a call without an
// answer, from an earlier session, or from another client that has changed it.
func (t *entry) isFixed(ctx context.Context, wanted bool) error {
	s := t.s
	now, sent, _, err := s.store.clock(ctx, s.l)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ended {
		return driver.ErrGone
	}
	if t.hold == 0 {
		if t.hold = t.j.Hold; t.hold == 0 {
			t.hold = s.ttl
		}
	}
	t.fixed, t.stray, t.evicted, t.until = true, false, t.key.evicted, t.key.until
	t.endsAt(sent.Add(t.key.left(now)))
	t.granted(wanted)
	return nil
}

// refix changes the end of a ticket that has one, of any session.
func (s *store) refix(ctx context.Context, l *link, q *queue, id string, fixed time.Duration, change func(t *ticket, now int64, m meta)) error {
	now, _, _, err := s.clock(ctx, l) // after this write the server is up to date
	if err != nil {
		return err
	}
	_, err = s.rename(ctx, l, q, id, nil, func(f *listing, next *ticket, c zk.Content, m *meta) bool {
		if !f.fixed(next, c) {
			return false
		}
		if change(next, now, *m); fixed != 0 {
			m.Fixed = fixed
		}
		return true
	})
	return err
}
