package curator

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	q := s.d.lane(t.Queue)
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	if p := s.place(t.ID); p != nil && p.q.name == q.name {
		return s.failed(limit, s.quit(ctx, p, clean))
	}
	s.mu.Lock()
	s.left.Add(t.ID)
	unsent := s.unsent.Has(t.ID)
	s.mu.Unlock()
	if unsent {
		return driver.ErrGone
	}
	return s.failed(limit, s.d.certain(ctx, s.l, q, func() error { return s.d.dismiss(ctx, s.l, q, t.ID, clean) }))
}

// quit takes the ticket out of its queue. A ticket whose creation had no answer is
// looked for once nothing more can come of that.
func (s *session) quit(ctx context.Context, p *place, clean bool) error {
	if p.q.leases != nil {
		return s.giveBack(ctx, p, clean)
	}
	if p.q.meets {
		return s.depart(ctx, p)
	}
	if err := p.settled(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	n, was, mark, ours := p.n, p.state, clean && p.state == held && p.whole, p.edition
	s.mu.Unlock()
	if was == gone {
		return driver.ErrGone
	}
	if n.node == "" {
		found, err := s.search(ctx, p)
		if err != nil {
			return err
		}
		if found == nil {
			s.mu.Lock()
			p.forget()
			s.mu.Unlock()
			return driver.ErrGone
		}
		n = *found
	}
	var err error
	if was == waiting {
		err = s.leaveLine(ctx, p.q.path+"/"+n.node)
	} else {
		err = s.d.take(ctx, s.l, p.q, n, mark, ours)
	}
	for tries := 0; errors.Is(err, zk.ErrNoNode) && tries < 5; tries++ {
		// It may have another name, from a call without an answer or by somebody else.
		found, e := s.search(ctx, p)
		if e != nil {
			return e
		}
		if found == nil {
			break
		}
		err = s.d.take(ctx, s.l, p.q, *found, mark, ours)
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

// search looks for the node of a ticket whose creation had no answer. It may still be
// under way: it is before the transaction that this begins with, or was refused.
func (s *session) search(ctx context.Context, p *place) (*name, error) {
	if err := s.l.CatchUp(ctx, p.q.path); err != nil {
		return nil, err
	}
	return s.locate(ctx, p)
}

// locate finds the node of the ticket, nil if there is none.
func (s *session) locate(ctx context.Context, p *place) (*name, error) {
	found, err := s.l.List(ctx, p.q.path, false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	all := parseAll(found.Names)
	if i, ok := all.place(p.req.ID); ok {
		return &all[i], nil
	}
	return nil, nil
}

// edition is the version of a queue's node whose data may be overwritten.
type edition int32

const (
	// anyEdition: nobody has looked since the ticket was granted. What somebody else has
	// written since is lost: to look first would take another round trip for each
	// hand-over.
	anyEdition edition = -1
	// freshEdition: the one that is there when it is read.
	freshEdition edition = -2
)

// take removes a ticket's node. With mark, it leaves word that an exclusive
// ticket was held and has left cleanly, unless the data there are not ours.
func (d *Driver) take(ctx context.Context, l *link, q *lane, n name, mark bool, e edition) error {
	path := q.path + "/" + n.node
	q.mu.Lock()
	mark = mark && !q.foreign && !q.denied
	if !q.seen {
		e = freshEdition
	}
	q.mu.Unlock()
	for tries := 0; mark && tries < 5; tries++ {
		if e == freshEdition {
			c, err := l.Get(ctx, q.path)
			if err != nil {
				return err
			}
			if !q.learn(c.Data) {
				break
			}
			e = edition(c.Stat.Version)
		}
		_, err := l.Multi(ctx, &zk.Write{Path: q.path, Data: n.mark(), Version: int32(e)}, &zk.Delete{Path: path, Version: -1})
		if errors.Is(err, zk.ErrNoAuth) {
			q.mu.Lock()
			q.denied = true
			q.mu.Unlock()
			break
		}
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
		e = freshEdition
	}
	return l.Remove(ctx, path)
}

// dismiss removes a ticket of another session, which must have a fixed end.
func (d *Driver) dismiss(ctx context.Context, l *link, q *lane, id string, clean bool) error {
	all, err := d.line(ctx, l, q)
	if err != nil {
		return err
	}
	i, ok := all.place(id)
	if !ok {
		return driver.ErrGone
	}
	c, err := l.Get(ctx, q.path+"/"+all[i].node)
	if errors.Is(err, zk.ErrNoNode) || err == nil && !all.fixed(i, c) {
		return driver.ErrGone
	}
	if err != nil {
		return err
	}
	err = d.take(ctx, l, q, all[i], clean && i == 0 && all[i].exclusive(), freshEdition)
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrGone
	}
	return err
}
