package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := checkID(t.ID); err != nil {
		return err
	}
	q, err := s.d.lane(t.Queue)
	if err != nil {
		return err
	}
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	if p := s.place(t.ID); p != nil && p.q == q {
		return s.failed(limit, s.quit(ctx, p, clean))
	}
	s.mu.Lock()
	s.left.add(t.ID)
	s.mu.Unlock()
	return s.failed(limit, s.d.dismiss(ctx, s.l, q, t.ID, clean))
}

// quit takes the ticket out of its queue. A ticket whose creation had no answer is
// looked for; if the creation arrives later, its node is removed then.
func (s *session) quit(ctx context.Context, p *place, clean bool) error {
	s.mu.Lock()
	n, was, mark := p.n, p.state, clean && p.state == held && p.n.exclusive()
	s.mu.Unlock()
	if was == gone {
		return driver.ErrGone
	}
	if n.node == "" {
		found, err := s.l.list(ctx, p.q.path, false)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		all := parseAll(found.names)
		i, ok := all.place(p.req.ID)
		if !ok {
			s.mu.Lock()
			p.forget()
			s.mu.Unlock()
			return driver.ErrGone
		}
		n = all[i]
	}
	err := s.d.take(ctx, s.l, p.q, n, mark)
	if errors.Is(err, zk.ErrNoNode) && n.until != 0 { // it may have got another end
		if err = s.d.dismiss(ctx, s.l, p.q, p.req.ID, clean); errors.Is(err, driver.ErrGone) {
			err = zk.ErrNoNode
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	s.mu.Lock()
	p.forget()
	s.mu.Unlock()
	if err != nil {
		return driver.ErrGone
	}
	return nil
}

// take removes a ticket's node. With mark, it leaves word that an exclusive
// ticket was held and has left cleanly.
func (d *Driver) take(ctx context.Context, l *link, q *lane, n name, mark bool) error {
	path := q.path + "/" + n.node
	q.mu.Lock()
	mark = mark && !q.foreign && !q.denied
	q.mu.Unlock()
	if mark {
		_, err := l.multi(ctx, &zk.SetDataRequest{Path: q.path, Data: markOf(n.number), Version: -1}, &zk.DeleteRequest{Path: path, Version: -1})
		if !errors.Is(err, zk.ErrNoAuth) {
			return err
		}
		q.mu.Lock()
		q.denied = true
		q.mu.Unlock()
	}
	return l.remove(ctx, path)
}

// dismiss removes a ticket of another session, which must have a fixed end.
func (d *Driver) dismiss(ctx context.Context, l *link, q *lane, id string, clean bool) error {
	found, err := l.list(ctx, q.path, false)
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrGone
	}
	if err != nil {
		return err
	}
	all, err := d.standing(ctx, l, q, parseAll(found.names))
	if err != nil {
		return err
	}
	i, ok := all.place(id)
	if !ok {
		return driver.ErrGone
	}
	c, err := l.get(ctx, q.path+"/"+all[i].node)
	if errors.Is(err, zk.ErrNoNode) || err == nil && !all.fixed(i, c) {
		return driver.ErrGone
	}
	if err != nil {
		return err
	}
	err = d.take(ctx, l, q, all[i], clean && all[i].exclusive())
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrGone
	}
	return err
}
