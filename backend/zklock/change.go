package zklock

import (
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
	return false, s.change(ctx, row, ref, func(ctx context.Context, o *session, t *seat) error {
		switch {
		case t == nil:
			return driver.ErrGone
		case !t.isOld():
			return zk.ErrConnectionClosed
		}
		return t.at.shrink(ctx, units)
	})
}

func (t *seat) shrink(ctx context.Context, units int64) error {
	return t.rename(ctx, 0, func(next *ticket) { next.Units = min(next.Units, units) })
}

// Keep gives a holder a fixed end, or one of another session that has a fixed end another one.
func (s *store) Keep(ctx context.Context, row exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, row, ref, func(ctx context.Context, o *session, t *seat) error {
		if t != nil {
			return t.at.keep(ctx, d)
		}
		longer := false
		err := s.refix(ctx, o.l, s.queue(ref.Queue), ref.ID, d, func(next *ticket, now int64, _ meta) {
			longer = next.keep(now, d)
		})
		if longer {
			err = driver.ErrGone
		}
		return err
	})
}

// keep moves the end of a ticket that has a fixed one. Longer: it was evicted, and would get a later one, so that
// nothing is changed.
func (t *ticket) keep(now int64, d time.Duration) (longer bool) {
	until := now + ceil(d)
	if t.evicted && until > t.until {
		return true
	}
	t.until = until
	return false
}

func (t *seat) keep(ctx context.Context, d time.Duration) error {
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
		_, err := t.fix(ctx, d, t.j.Hold == 0)
		return err
	case exchange.Waiting:
		return exchange.ErrNotHeld
	}
	return driver.ErrGone
}

// change changes a ticket; it has no seat if it is of another session.
func (s *store) change(ctx context.Context, row exchange.Session, ref exchange.Ref, f func(context.Context, *session, *seat) error) error {
	return s.in(ctx, row.ID, func(ctx context.Context, o *session) error {
		t := o.seat(ref.ID)
		if t == nil || t.q.name != ref.Queue {
			return f(ctx, o, nil)
		}
		if err := t.turn.take(ctx); err != nil {
			return err
		}
		defer t.turn.give()
		return f(ctx, o, t)
	})
}

// rename replaces the node of a ticket of this session by one that next makes of it; fixed is how long the fixed time
// is that then begins, if one does.
func (t *seat) rename(ctx context.Context, fixed time.Duration, next func(*ticket)) error {
	s := t.s
	s.mu.Lock()
	key, own, token := t.key, t.own, t.token
	t.own = nil
	s.mu.Unlock()
	s.l.Ignore(own)
	to, err := s.store.rename(ctx, s.l, t.q, t.j.ID, key, func(_ *listing, to *ticket, _ zk.Content, m *meta) bool {
		if next(to); m.TTL == 0 {
			*m = t.meta()
		}
		if m.Token == 0 {
			m.Token = token // 0 if no client has been told one
		}
		if fixed != 0 {
			m.Fixed = fixed
		}
		return true
	})
	s.mu.Lock()
	switch {
	case errors.Is(err, driver.ErrGone):
		t.forget()
	case err == nil:
		t.whole = t.whole && to.Units == key.Units
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
	for range 5 {
		if key == nil {
			var err error
			if f, err = s.readAny(ctx, l, q); err != nil {
				return nil, err
			}
			if key, _ = f.Find(id); key == nil {
				return nil, driver.ErrGone
			}
		}
		path := q.path + "/" + key.node
		c, err := l.Get(ctx, path)
		if err == nil {
			next := *key
			m, _ := decode(c.Data)
			if !change(f, &next, c, &m) {
				return nil, driver.ErrGone
			}
			if next.node = next.numbered(key.node); next.node == key.node {
				return key, nil
			}
			if m.Joined == 0 {
				m.Joined, m.Zxid = c.Stat.Ctime, uint64(c.Stat.Czxid)
			}
			flags := int32(zk.Ephemeral)
			if next.Stays = next.until != 0; next.Stays {
				flags = zk.Persistent
			}
			_, err = l.Multi(ctx, &zk.Write{Path: path, Version: -1}, &zk.Delete{Path: path, Version: -1},
				&zk.Create{Path: q.path + "/" + next.node, Data: m.encode(), Acl: s.acl, Flags: flags})
			if err == nil {
				return &next, nil
			}
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		// Another client has changed it, or this was done by a call without an answer.
		if err := l.CatchUp(ctx, q.path); err != nil {
			return nil, err
		}
		key = nil
	}
	return nil, zk.ErrBadVersion
}

// fix gives a ticket that is held, or is about to be, its end: a node that does not go with the session. It counts from
// before the server's clock is read.
func (t *seat) fix(ctx context.Context, d time.Duration, kept bool) (st exchange.Status, err error) {
	s := t.s
	now, sent, _, err := s.store.clock(ctx, s.l)
	if err != nil {
		return st, err
	}
	was := t.now()
	evicted, again, most := was.evicted, was.state == exchange.Held, was.end.Sub(sent)
	longer := false // nothing makes an evicted ticket last longer
	err = t.rename(ctx, d, func(next *ticket) {
		next.evicted = next.evicted || evicted
		switch {
		case next.until != 0:
			longer = next.keep(now, d)
		case evicted && again && d > most:
			longer = true
		case evicted:
			next.until = now + ceil(max(min(d, most), 0))
		default:
			next.until = now + ceil(d)
		}
		next.kept = kept
	})
	if err == nil && longer {
		err = driver.ErrGone
	}
	if err != nil {
		return st, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seats[t.j.ID] != t {
		return st, driver.ErrGone
	}
	if t.evicted && !evicted { // meanwhile
		t.evict()
	}
	return t.endsAs(exchange.Status{Left: t.key.left(now), Hold: d, Sent: sent, Evicted: t.key.evicted}), nil
}

// endsAs notes the fixed end that a ticket has; s.mu is held.
func (t *seat) endsAs(is exchange.Status) exchange.Status {
	t.stray, t.evicted = false, t.evicted || is.Evicted
	t.endsAt(is.Sent.Add(is.Left))
	st := t.basic()
	st.Fixed, st.Left, st.Hold, st.Sent = true, is.Left, is.Hold, is.Sent
	return st
}

// fixed: it has a fixed end; s.mu is held.
func (t *seat) fixed() bool { return t.key != nil && t.key.until != 0 }

// evict moves the end of a ticket with a fixed one up.
func (t *seat) evict() {
	t.s.store.background(func(ctx context.Context) {
		ctx, cancel := t.s.within(ctx)
		defer cancel()
		retry(ctx, again, func() error { return zk.Unless(t.s.store.evict(ctx, t.s.l, t.q, t.j.ID), driver.ErrGone) })
	})
}

func (s *store) evict(ctx context.Context, l *link, q *queue, id string) error {
	return s.refix(ctx, l, q, id, 0, func(t *ticket, now int64, m meta) {
		t.until, t.evicted = min(t.until, now+ceil(m.TTL)), true
	})
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

// standing finds out how a ticket stands that has a fixed end, of any session; nil: it does not.
func (s *store) standing(ctx context.Context, l *link, q *queue, id string) (*ticket, exchange.Status, error) {
	for {
		f, err := s.readAny(ctx, l, q)
		if err != nil {
			return nil, exchange.Status{}, err
		}
		key, ok := f.Find(id)
		if !ok || key.until == 0 {
			return nil, exchange.Status{}, nil
		}
		c, err := l.Get(ctx, q.path+"/"+key.node)
		if err == nil {
			m, _ := decode(c.Data)
			return key, exchange.Status{State: exchange.Held, Fixed: true, Left: key.left(f.now), Hold: m.Fixed, Evicted: key.evicted, Sent: f.sent}, nil
		}
		if !errors.Is(err, zk.ErrNoNode) { // else it has left, or has another name
			return nil, exchange.Status{}, err
		}
	}
}
