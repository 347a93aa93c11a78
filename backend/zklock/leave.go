package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Leave removes the node of a ticket.
func (s *store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	o, err := s.live(l.Session.ID)
	if err != nil {
		return false, err
	}
	within, cancel := o.within(ctx)
	defer cancel()
	return false, o.failed(ctx, o.leave(within, l))
}

func (s *session) leave(ctx context.Context, l exchange.Leave) error {
	q := s.store.queue(l.Queue)
	if t := s.seat(l.ID); t != nil && t.q.name == q.name {
		return t.at.quit(ctx, l.Clean)
	}
	s.mu.Lock()
	s.buried.Add(l.ID)
	s.mu.Unlock()
	return s.certain(ctx, q, func() error {
		return anew(func() error { return s.store.dismiss(ctx, s.l, q, l.ID, l.Clean) })
	})
}

// Withdraw removes waiters, which leave no mark, in one transaction. It fails as a whole if one of its nodes is
// gone, or may not be removed: then each is removed by itself.
func (s *store) Withdraw(ctx context.Context, row exchange.Session, name string, ids []string, clean bool) ([]bool, bool, error) {
	o, err := s.live(row.ID)
	if err != nil {
		return nil, false, err
	}
	within, cancel := o.within(ctx)
	defer cancel()
	gone, err := o.withdraw(within, s.queue(name), ids, clean)
	return gone, false, o.failed(ctx, err)
}

func (s *session) withdraw(ctx context.Context, q *queue, ids []string, clean bool) ([]bool, error) {
	gone := make([]bool, len(ids))
	var ops []any
	var all []*seat
	s.mu.Lock()
	for i, id := range ids {
		switch t := s.seats[id]; {
		case t == nil || t.q.name != q.name:
			gone[i] = true
		case t.state == exchange.Waiting && t.key.until == 0 && !t.at.alone():
			all = append(all, t)
			ops = append(ops, &zk.Delete{Path: t.path(), Version: -1})
		}
	}
	s.mu.Unlock()
	if len(ops) > 1 && len(ops) == len(ids) {
		_, err := s.l.Multi(ctx, ops...)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, t := range all {
				t.forget()
			}
			return gone, nil
		}
		if !sure(err) {
			return nil, err
		}
	}
	errs := make([]error, len(ids))
	slots := make(chan struct{}, zk.CrowdSlots)
	exchange.AtOnce(len(ids), func(i int) {
		slots <- struct{}{}
		defer func() { <-slots }()
		t := s.seat(ids[i])
		if gone[i] = t == nil || t.q.name != q.name; gone[i] {
			return
		}
		err := t.at.quit(ctx, clean)
		if gone[i] = errors.Is(err, driver.ErrGone); !gone[i] {
			errs[i] = err
		}
	})
	return gone, errors.Join(errs...)
}

// quit takes the ticket out of its queue. A ticket whose creation had no answer is
// looked for once nothing more can come of that.
func (t *seat) quit(ctx context.Context, clean bool) error {
	s := t.s
	if err := t.settle(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	key, mark, late, v := t.key, clean && t.state == exchange.Held && t.whole, t.late, t.version
	there := s.seats[t.j.ID] == t
	s.mu.Unlock()
	if !there {
		return driver.ErrGone
	}
	err := error(zk.ErrNoNode)
	if key != nil {
		err = s.store.takeLate(ctx, s.l, t.q, key, mark, late, v)
	}
	for tries := 0; errors.Is(err, zk.ErrNoNode) && tries < 5; tries++ {
		// It may have another name, from a call without an answer or by another client.
		found, e := t.locate(ctx, s.l)
		if e != nil {
			return e
		}
		if found == nil {
			break
		}
		err = s.store.takeLate(ctx, s.l, t.q, found, mark, late, v)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	s.mu.Lock()
	t.forget()
	s.mu.Unlock()
	if err != nil {
		return driver.ErrGone
	}
	return nil
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
	return stale(s.takeLate(ctx, l, q, key, clean && p.Exclusive && len(p.Before) == 0, f.late(key), freshVersion))
}

// fixed reports whether a ticket has a fixed end, or gets one as soon as its
// session notices that it is held.
func (f *listing) fixed(t *ticket, c zk.Content) bool {
	m, ok := decode(c.Data)
	p := f.Place(t)
	return t.until != 0 || ok && m.Hold && p.Held
}

// replace changes a ticket: another node takes its place in one transaction, with
// the same number. Whoever watches it first sees its data change, and so does not
// take it for gone.
func (s *store) replace(ctx context.Context, l *link, q *queue, t *ticket, next string, data []byte, flags int32) error {
	path := q.path + "/" + t.node
	_, err := l.Multi(ctx,
		&zk.Write{Path: path, Version: -1},
		&zk.Delete{Path: path, Version: -1},
		&zk.Create{Path: q.path + "/" + next, Data: data, Acl: s.acl, Flags: flags})
	return err
}

// Shrink gives the ticket another name. As with Curator, a writer that becomes a
// reader keeps its number.
func (s *store) Shrink(ctx context.Context, row exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	return false, s.change(ctx, row, ref, func(ctx context.Context, t *seat) error {
		if t == nil {
			return driver.ErrGone
		}
		t.s.mu.Lock()
		key := t.key
		t.s.mu.Unlock()
		if key == nil {
			return zk.ErrConnectionClosed
		}
		return t.at.shrink(ctx, units)
	})
}

func (t *seat) shrink(ctx context.Context, units int64) error {
	t.s.mu.Lock()
	flags := int32(zk.Ephemeral)
	if t.key.until != 0 {
		flags = zk.Persistent
	}
	t.s.mu.Unlock()
	return t.rename(ctx, 0, flags, func(next *ticket) { next.Units = min(next.Units, units) })
}

// Keep gives a holder a fixed end.
func (s *store) Keep(ctx context.Context, row exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, row, ref, func(ctx context.Context, t *seat) error {
		if t == nil {
			return s.keepOther(ctx, row, ref, d)
		}
		return t.at.keep(ctx, d)
	})
}

func (t *seat) keep(ctx context.Context, d time.Duration) error {
	if st := t.known(); st == exchange.Waiting {
		if err := t.s.l.CatchUp(ctx, t.q.path); err != nil {
			return err
		}
		if _, err := t.look(ctx); err != nil {
			return err
		}
	}
	switch t.known() {
	case exchange.Held:
		return t.fix(ctx, d, t.j.Hold == 0, false)
	case exchange.Waiting:
		return exchange.ErrNotHeld
	}
	return driver.ErrGone
}

func (t *seat) known() exchange.State {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.state
}

// change changes a ticket; it has no seat if it is of another session.
func (s *store) change(ctx context.Context, row exchange.Session, ref exchange.Ref, f func(context.Context, *seat) error) error {
	o, err := s.live(row.ID)
	if err != nil {
		return err
	}
	within, cancel := o.within(ctx)
	defer cancel()
	t := o.seat(ref.ID)
	if t != nil && t.q.name != ref.Queue {
		t = nil
	}
	if t != nil {
		if err := t.turn.take(within); err != nil {
			return o.failed(ctx, err)
		}
		defer t.turn.give()
	}
	return o.failed(ctx, f(within, t))
}

// rename replaces the node of a ticket of this session by one that next makes of it.
func (t *seat) rename(ctx context.Context, fixed time.Duration, flags int32, next func(*ticket)) error {
	s := t.s
	for range 5 {
		s.mu.Lock()
		key, own, token := t.key, t.own, t.token
		t.own = nil
		s.mu.Unlock()
		s.l.Ignore(own)
		to := *key
		next(&to)
		to.node = to.numbered(key.node)
		if to.node == key.node {
			s.mu.Lock()
			t.own = nil
			s.mu.Unlock()
			t.resettle()
			return nil
		}
		c, err := s.l.Get(ctx, t.q.path+"/"+key.node)
		if err == nil {
			err = s.store.replace(ctx, s.l, t.q, key, to.node, succeed(c, token, fixed, t.meta()), flags)
		}
		if errors.Is(err, zk.ErrNoNode) {
			// Another client has changed it, or this was done by a call without an answer.
			found, err := t.locate(ctx, s.l)
			if err != nil {
				return err
			}
			s.mu.Lock()
			if found == nil {
				t.forget()
				s.mu.Unlock()
				return driver.ErrGone
			}
			t.key = found
			s.mu.Unlock()
			continue
		}
		if err != nil {
			return err
		}
		to.Stays = to.until != 0
		s.mu.Lock()
		t.whole = t.whole && to.Units == key.Units
		t.key = &to
		waits := t.state == exchange.Waiting
		s.mu.Unlock()
		if waits {
			t.lookAnew()
		} else {
			t.resettle()
		}
		return nil
	}
	return zk.ErrBadVersion
}

// resettle has the node of a holder watched.
func (t *seat) resettle() {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.state == exchange.Held && t.settled != nil {
		t.settled.Reset(settledAfter)
	}
}

// succeed is the data of a node that takes the place of another. The token is 0 if no client has
// been told one.
func succeed(c zk.Content, token uint64, fixed time.Duration, fallback meta) []byte {
	m, ok := decode(c.Data)
	if !ok {
		m = fallback
	}
	if m.Token == 0 {
		m.Token = token
	}
	if fixed != 0 {
		m.Fixed = fixed
	}
	if m.Joined == 0 {
		m.Joined, m.Zxid = c.Stat.Ctime, uint64(c.Stat.Czxid)
	}
	return m.encode()
}

// fix gives a ticket that is about to be held its end: a node that does not go
// with the session. It counts from before the server's clock is read.
func (t *seat) fix(ctx context.Context, hold time.Duration, kept, wanted bool) error {
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
	err = t.rename(ctx, whole, zk.Persistent, func(next *ticket) {
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
	if s.seats[t.j.ID] != t {
		return driver.ErrGone
	}
	t.fixed, t.stray, t.kept, t.hold, t.until = true, false, kept, whole, until
	t.endsAt(sent.Add(hold))
	if t.evicted && !evicted { // meanwhile
		s.store.background(t.evict)
	}
	t.holds(wanted)
	return nil
}

// evict moves the end of a ticket with a fixed one up.
func (t *seat) evict(ctx context.Context) {
	s := t.s
	ctx, cancel := s.within(ctx)
	defer cancel()
	err := s.store.evict(ctx, s.l, t.q, t.j.ID)
	if err != nil && !errors.Is(err, driver.ErrGone) && ctx.Err() == nil {
		time.AfterFunc(again, func() { s.store.background(t.evict) })
	}
}

func (s *store) evict(ctx context.Context, l *link, q *queue, id string) error {
	return s.refix(ctx, l, q, id, 0, func(t *ticket, now int64, m meta) {
		t.until, t.evicted = min(t.until, now+ceil(m.TTL)), true
	})
}

// isFixed notes the end that the node of a ticket has: from a call without an
// answer, from an earlier session, or from another client that has changed it.
func (t *seat) isFixed(ctx context.Context, wanted bool) error {
	s := t.s
	now, sent, _, err := s.store.clock(ctx, s.l)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seats[t.j.ID] != t {
		return driver.ErrGone
	}
	if t.hold == 0 {
		if t.hold = t.j.Hold; t.hold == 0 {
			t.hold = s.ttl
		}
	}
	t.fixed, t.stray, t.kept, t.evicted, t.until = true, false, t.key.kept, t.key.evicted, t.key.until
	t.endsAt(sent.Add(t.key.left(now)))
	t.holds(wanted)
	return nil
}

// keepOther changes the end of a ticket of another session that has a fixed one.
func (s *store) keepOther(ctx context.Context, row exchange.Session, ref exchange.Ref, d time.Duration) error {
	o, err := s.live(row.ID)
	if err != nil {
		return err
	}
	longer := false
	err = s.refix(ctx, o.l, s.queue(ref.Queue), ref.ID, d, func(t *ticket, now int64, _ meta) {
		if longer = t.evicted && now+ceil(d) > t.until; !longer {
			t.until = now + ceil(d)
		}
	})
	if err == nil && longer {
		err = driver.ErrGone
	}
	return err
}

// refix changes the end of a ticket that has one, of any session.
func (s *store) refix(ctx context.Context, l *link, q *queue, id string, fixed time.Duration, change func(t *ticket, now int64, m meta)) error {
	return anew(func() error {
		now, _, _, err := s.clock(ctx, l) // after this write the server is up to date
		if err != nil {
			return err
		}
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
		m, _ := decode(c.Data)
		next := *key
		change(&next, now, m)
		next.node = next.numbered(key.node)
		if next.node == key.node {
			return nil
		}
		return stale(s.replace(ctx, l, q, key, next.node, succeed(c, 0, fixed, meta{}), zk.Persistent))
	})
}
