package curator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

func (d *Driver) replace(ctx context.Context, l *link, q *lane, n name, next string, data []byte, flags int32) error {
	path := q.path + "/" + n.node
	_, err := l.Multi(ctx,
		&zk.Write{Path: path, Version: -1},
		&zk.Delete{Path: path, Version: -1},
		&zk.Create{Path: q.path + "/" + next, Data: data, Acl: d.acl, Flags: flags})
	return err
}

func numbered(n name, stem string) string {
	at := len(n.node) - len(fmt.Sprintf("%010d", n.number))
	return stem + n.node[at:]
}

func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	p := s.place(t.ID)
	if p == nil || p.q.name != t.Queue {
		return driver.ErrGone
	}
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := p.await.take(ctx); err != nil {
		return s.failed(limit, err)
	}
	defer p.await.give()
	s.mu.Lock()
	n := p.n
	s.mu.Unlock()
	if n.node == "" {
		return s.failed(limit, zk.ErrConnectionClosed)
	}
	if p.q.leases != nil {
		return s.failed(limit, s.shrinkLoan(ctx, p, units))
	}
	if units >= n.units {
		return nil
	}
	flags := int32(zk.Ephemeral)
	if n.until != 0 {
		flags = zk.Persistent
	}
	return s.failed(limit, s.rename(ctx, p, flags, func(n name) name {
		n.units = min(n.units, units)
		return n
	}))
}

func stemOf(n *name, id string) string {
	if n.limit != 0 {
		return n.layout.stem(id, n.kind, n.wants, n.limit)
	}
	return n.layout.stem(id, n.kind, n.units, n.said, n.marks()...)
}

func (s *session) rename(ctx context.Context, p *place, flags int32, next func(name) name) error {
	for range 5 {
		s.mu.Lock()
		n, own, token := p.n, p.own, p.got.Token
		p.own = nil
		s.mu.Unlock()
		s.l.Ignore(own)
		to := next(n)
		to.node = numbered(to, stemOf(&to, p.req.ID))
		if to.node == n.node {
			return nil
		}
		c, err := s.l.Get(ctx, p.q.path+"/"+n.node)
		if err == nil {
			err = s.d.replace(ctx, s.l, p.q, n, to.node, succeed(c, token, p.meta()), flags)
		}
		if errors.Is(err, zk.ErrNoNode) {
			if err := s.relocate(ctx, p); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		p.whole = p.whole && to.units == n.units
		p.n, p.view = to, nil
		p.changed()
		s.mu.Unlock()
		return nil
	}
	return zk.ErrBadVersion
}

func (s *session) relocate(ctx context.Context, p *place) error {
	found, err := s.locate(ctx, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found == nil {
		p.forget()
		return driver.ErrGone
	}
	p.n = *found
	return nil
}

func succeed(c content, token uint64, fallback []byte) []byte {
	m, ok := decode(c.Data)
	if !ok {
		_ = json.Unmarshal(fallback, &m)
	}
	if m.Token == 0 {
		m.Token = token
	}
	if m.Joined == 0 {
		m.Joined, m.Zxid = c.Stat.Ctime, uint64(c.Stat.Czxid)
	}
	b, _ := json.Marshal(m)
	return b
}

func decode(data []byte) (m meta, ok bool) {
	if !strings.HasPrefix(string(data), "{") || json.Unmarshal(data, &m) != nil || m.Token >= driver.MaxToken {
		return meta{}, false
	}
	return m, true
}

func (s *session) fix(ctx context.Context, p *place, hold time.Duration, kept, wanted bool) error {
	now, sent, by, err := s.d.clock(ctx, s.l)
	if err != nil {
		return err
	}
	s.mu.Lock()
	evicted := p.evicted
	again := p.state == held
	longer := again && evicted && !p.fixed && hold > p.end.Sub(sent)
	if evicted {
		hold = max(min(hold, p.end.Sub(sent)), 0)
	}
	s.mu.Unlock()
	if longer {
		return driver.ErrGone // nothing makes an evicted ticket last longer
	}
	err = s.rename(ctx, p, zk.Persistent, func(n name) name {
		if longer = again && n.evicted && n.until != 0 && now+ceil(hold) > n.until; longer {
			return n
		}
		n.until, n.kept, n.evicted = now+ceil(hold), kept, n.evicted || evicted
		return n
	})
	if err != nil {
		return err
	}
	if longer {
		return driver.ErrGone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.state == gone {
		return driver.ErrGone
	}
	p.fixed, p.kept, p.end = true, kept, by.Add(time.Duration(ceil(hold))*time.Millisecond)
	p.got.Proof = sent
	if p.state == waiting {
		p.isHeld(wanted)
	}
	return nil
}

func (s *session) isFixed(ctx context.Context, p *place, wanted bool) error {
	now, sent, by, err := s.d.clock(ctx, s.l)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.state != waiting {
		return nil
	}
	whole := p.req.Hold
	if whole == 0 {
		whole = s.ttl
	}
	left := p.n.left(now)
	p.fixed, p.kept, p.end = true, p.n.kept, by.Add(left)
	p.got.Proof = sent.Add(min(left-whole, 0)) // the caller counts the whole from there
	p.isHeld(wanted)
	return nil
}

func ceil(d time.Duration) int64 { return int64((d+time.Millisecond-1)/time.Millisecond) + 1 }

func (s *session) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	q := s.d.lane(t.Queue)
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	if p := s.place(t.ID); p != nil && p.q.name == q.name {
		switch {
		case p.q.leases != nil:
			return errFixedLease
		case p.q.meets:
			return errFixedMember
		}
		if err := p.await.take(ctx); err != nil {
			return s.failed(limit, err)
		}
		defer p.await.give()
		if p.known() == waiting {
			if err := s.recheck(ctx, p); err != nil {
				return s.failed(limit, err)
			}
		}
		if p.known() != held {
			return errNotHeld
		}
		return s.failed(limit, s.fix(ctx, p, d, p.req.Hold == 0, false))
	}
	longer := false
	err := s.d.refix(ctx, s.l, q, t.ID, func(n *name, now int64, _ meta) {
		if longer = n.evicted && now+ceil(d) > n.until; !longer {
			n.until = now + ceil(d)
		}
	})
	if err == nil && longer {
		err = driver.ErrGone
	}
	return s.failed(limit, err)
}

var errNotHeld = driver.Invalid(errors.New("keep: the ticket is not held"))

func (d *Driver) refix(ctx context.Context, l *link, q *lane, id string, change func(n *name, now int64, m meta)) error {
	for range 5 {
		now, _, _, err := d.clock(ctx, l) // after this write the server is up to date
		if err != nil {
			return err
		}
		all, err := d.line(ctx, l, q)
		if err != nil {
			return err
		}
		i, ok := all.place(id)
		if !ok {
			return driver.ErrGone
		}
		n := all[i]
		c, err := l.Get(ctx, q.path+"/"+n.node)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if !all.fixed(i, c) {
			return driver.ErrGone
		}
		m, _ := decode(c.Data)
		next := n
		change(&next, now, m)
		next.node = numbered(n, stemOf(&next, id))
		if next.node == n.node {
			return nil
		}
		err = d.replace(ctx, l, q, n, next.node, succeed(c, 0, nil), zk.Persistent)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return zk.ErrBadVersion
}

func (l line) fixed(i int, c content) bool {
	m, ok := decode(c.Data)
	return l[i].until != 0 || ok && m.Hold && l.holds(i)
}

func (d *Driver) clock(ctx context.Context, l *link) (now int64, sent, by driver.Instant, err error) {
	path := d.aside("clock")
	for range 5 {
		sent = d.Now()
		stat, err := l.Set(ctx, path, nil, -1)
		if err == nil {
			return stat.Mtime, sent, d.Now(), nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return 0, 0, 0, err
		}
		if err := d.lay(ctx, l, path, false); err != nil {
			return 0, 0, 0, err
		}
	}
	return 0, 0, 0, zk.ErrNoNode
}

func (d *Driver) standing(ctx context.Context, l *link, q *lane, all line) (line, error) {
	fixed := false
	for _, n := range all {
		fixed = fixed || n.until != 0
	}
	if !fixed {
		return all, nil
	}
	now, _, _, err := d.clock(ctx, l)
	if err != nil {
		return nil, err
	}
	ended := 0
	for i, n := range all {
		if n.until == 0 || n.until > now {
			continue
		}
		err := d.take(ctx, l, q, n, n.kept && n.exclusive() && ended == i, freshEdition)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, errStale // it may have got another end meanwhile
		}
		if err != nil {
			return nil, err
		}
		ended++
	}
	if ended > 0 {
		return nil, errStale
	}
	return all, nil
}

func (d *Driver) certain(ctx context.Context, l *link, q *lane, look func() error) error {
	err := look()
	if errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrBusy) || errors.Is(err, driver.ErrMismatch) {
		if err := l.CatchUp(ctx, q.path); err != nil {
			return err
		}
		return look()
	}
	return err
}

func (d *Driver) line(ctx context.Context, l *link, q *lane) (line, error) {
	all, _, err := d.queue(ctx, l, q)
	return all, err
}

func (d *Driver) queue(ctx context.Context, l *link, q *lane) (line, setting, error) {
	for {
		all, set, err := d.tickets(ctx, l, q, false)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, setting{}, nil
		}
		if err != nil {
			return nil, set, err
		}
		all, err = d.standing(ctx, l, q, all)
		if !errors.Is(err, errStale) {
			return all, set, err
		}
	}
}
