package zklock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

const (
	together = 100                  // changes in one transaction
	patience = 5 * time.Millisecond // a part of what an ensemble takes whose members are far from each other
)

// batch is a transaction of several changes: each transaction costs an ensemble a proposal, with one change as with many.
type batch struct {
	s     *session
	slot  func() // of its Joins; nil: there is none
	parts []*part
}

// part is one of these changes.
type part struct {
	of  int // the list
	t   *entry
	ops []any // of a Leave

	// Of a Join.
	made func(m zk.Made, at int, err error) error
	err  error // of its node
	list func(context.Context) (zk.Children, error)
}

func (p *part) join() bool { return p.ops == nil }

// Change has changes of different queues share a transaction, and waiters of one queue that give up, if nothing has to be
// read before. That fails as a whole if one of them is refused, which is then made alone.
func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	_, withdrawn := exchange.Withdrawal(changes)
	if len(changes) == 1 {
		exchange.Each(ctx, s, changes, answer)
		return
	}
	alone := func(i int) { answer(i, exchange.Answer{Err: exchange.ErrAlone}) }
	of := &batch{}
	defer of.end()
	for i, c := range changes {
		if withdrawn == nil && slices.ContainsFunc(changes[:i], func(o exchange.Change) bool { return o.In() == c.In() }) {
			alone(i)
			continue
		}
		p, err := of.part(s, c)
		if err != nil {
			answer(i, exchange.Answer{Err: err})
			continue
		}
		p.of = i
		of.parts = append(of.parts, p)
	}
	for tries := 0; tries < 2 && len(of.parts) > 1; tries++ {
		var refused refusal
		err := of.make(ctx)
		if !errors.As(err, &refused) {
			exchange.AtOnce(len(of.parts), func(i int) { answer(of.parts[i].of, of.parts[i].answer(ctx, err)) })
			return
		}
		refused.of.apart()
		alone(refused.of.of)
		of.parts = slices.DeleteFunc(of.parts, func(p *part) bool { return p == refused.of })
	}
	for _, p := range of.parts {
		p.apart()
		alone(p.of)
	}
}

func (of *batch) end() {
	if of.slot != nil {
		of.slot()
	}
}

// part is a change that can share, or else what is the answer to it.
func (of *batch) part(s *store, c exchange.Change) (*part, error) {
	var row exchange.Session
	j, joins := c.(*exchange.Join)
	l, leaves := c.(*exchange.Leave)
	switch {
	case joins:
		row = j.Session
	case leaves:
		row = l.Session
	}
	o, err := s.live(row.ID)
	if err != nil || of.s != nil && of.s != o {
		return nil, exchange.ErrAlone
	}
	of.s = o
	if leaves {
		return o.leavePart(l)
	}
	if of.slot == nil {
		of.slot = o.l.FreeSlot()
	}
	if of.slot == nil {
		return nil, exchange.ErrAlone
	}
	return o.joinPart(j)
}

// joinPart is of a new ticket, in a queue that has a node, and no crowd.
func (s *session) joinPart(j *exchange.Join) (*part, error) {
	q := s.store.queue(j.Queue)
	q.mu.Lock()
	stands := q.stands
	q.mu.Unlock()
	if !stands || q.crowded() || j.NoWait || j.Retry || j.Hold > 0 || s.store.checkShape(j) != nil || s.entry(j.ID) != nil {
		return nil, exchange.ErrAlone
	}
	t, fresh, err := s.entryOf(q, j)
	if err != nil || !fresh || !t.turn.TakeNow() {
		return nil, exchange.ErrAlone
	}
	return &part{t: t}, nil
}

// leavePart is of a holder that knows which data of its queue it may overwrite, or of a waiter.
func (s *session) leavePart(l *exchange.Leave) (*part, error) {
	t := s.entry(l.ID)
	if t == nil || t.q.name != l.Queue {
		if l.Withdraws {
			return nil, driver.ErrGone
		}
		return nil, exchange.ErrAlone
	}
	s.mu.Lock()
	now, alone := t.known, t.recipe.alone()
	s.mu.Unlock()
	m := t.q.leaves(now.mark.when(l.Clean && now.state == exchange.Held))
	if alone || now.state == exchange.Gone || now.key.until != 0 || m.leaves && m.version == freshVersion {
		return nil, exchange.ErrAlone
	}
	return &part{t: t, ops: t.q.removal(now.key, m)}, nil
}

// refusal is the error of a transaction because of one of its parts.
type refusal struct {
	error
	of *part
}

// make makes the transaction.
func (of *batch) make(ctx context.Context) error {
	ctx, cancel := of.s.within(ctx)
	defer cancel()
	var ops []any
	var lists []string
	var owners []*part // of the operations
	for _, p := range of.parts {
		mine := p.ops
		if p.join() {
			var op *zk.Create
			op, p.made = p.t.making()
			mine, lists = []any{op}, append(lists, p.t.q.path)
		}
		for _, op := range mine {
			ops, owners = append(ops, op), append(owners, p)
		}
	}
	lines, err := of.s.l.Change(ctx, of.s.zk, ops, lists, func(m zk.Made, err error) error {
		for at, p := range owners {
			if p.join() {
				p.err = p.made(m, at, err)
			}
			if at < len(m.Results) && m.Results[at].Err != nil && !errors.As(err, new(refusal)) {
				err = refusal{err, p}
			}
		}
		return err
	})
	for _, p := range of.parts {
		if p.join() && err == nil {
			p.list, lines = lines[0], lines[1:]
		}
	}
	return err
}

// answer says how it went; err: the transaction failed.
func (p *part) answer(ctx context.Context, err error) (a exchange.Answer) {
	s := p.t.s
	ctx, cancel := s.within(ctx)
	defer cancel()
	switch {
	case !p.join() && err == nil:
		p.t.forgotten()
	case p.join():
		defer p.t.turn.Give()
		if err = cmp.Or(err, p.err); err == nil {
			c, e := p.list(ctx)
			a.Status, err = p.t.arrived(ctx, c, e)
			err = s.joined(p.t.j.ID, a.Status, err)
		}
		if err != nil && s.store.lasts(err) {
			p.t.withdraw(ctx)
		}
	}
	a.Err = s.failed(ctx, err)
	return a
}

// apart: the change is made alone.
func (p *part) apart() {
	if p.join() {
		p.t.s.discard(p.t)
		p.t.turn.Give()
	}
}
