package curator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// With semaphore=curator, a semaphore is laid out as Curator's
// InterProcessSemaphoreV2, of which InterProcessSemaphoreMutex is the one with one
// lease:
//
//	locks/_c_<UUID>-leases3of8-lock-<number>  a ticket that waits
//	leases/_c_<UUID>-of8-lease-<number>       one unit of a ticket
//
// Whoever is first in locks makes its leases, which takes several for several units,
// and holds once no more than the capacity are there; only then does it leave locks to
// the next one. So leases are granted in the order of locks. To Curator each child
// of leases is a unit, whatever its name.
//
// In locks, a ticket is like one for a mutex, and waits like that. What is
// different begins when it is first.

// mostLeases is how many units a ticket may have: each is a node.
const mostLeases = 1000

// loan is what is known of a ticket's leases; session.mu guards it.
type loan struct {
	units   int64
	since   int64    // when it was seen to wait, in the server's milliseconds; else 0
	asked   int64    // by it and those in front of it in locks, when it was last seen there
	pursued bool     // Join is done with it
	first   bool     // it is first in locks
	begun   bool     // its leases may be there
	nodes   []string // its leases, once they are known
	fits    bool     // they were not too many: it holds, although it may still be in locks
	trouble error    // why nobody pursues the ticket any more
}

// laneOf returns where tickets of a kind stand.
func (d *Driver) laneOf(queue string, kind driver.Kind) *lane {
	q := d.lane(queue)
	lends, meets := kind == driver.Semaphore && d.names.leases, kind == driver.Barrier && d.names.barriers
	if !lends && !meets {
		return q
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if meets {
		if q.meeting == nil {
			q.meeting = &lane{name: queue, path: q.path, meets: true}
		}
		return q.meeting
	}
	if q.lending == nil {
		q.lending = &lane{name: queue, path: q.path + "/locks", leases: &lane{name: queue, path: q.path + "/leases"}}
	}
	return q.lending
}

// checkLoan refuses what leases and members in Curator's layout cannot be.
func checkLoan(q *lane, r *driver.Request) error {
	switch {
	case q.meets && r.Hold > 0:
		return errFixedMember
	case q.leases == nil:
		return nil
	case r.Hold > 0:
		return errFixedLease
	case r.Units > mostLeases:
		return driver.Invalid(fmt.Errorf("zookeeper: %d permits at once: with semaphore=curator each is a node, and %d are possible", r.Units, mostLeases))
	}
	return nil
}

var errFixedLease = driver.Invalid(errors.New("zookeeper: with semaphore=curator a permit ends with its session, never at a fixed time"))

// lends reports whether the ticket is first in locks, so that only leases matter.
func (p *place) lends() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.loan.first
}

// borrowed sees what became of a ticket that was first in locks.
func (s *session) borrowed(ctx context.Context, p *place) error {
	if p.known() == waiting {
		return s.grantLeases(ctx, p, false)
	}
	all, err := s.l.leases(ctx, p.q, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	missing := p.state == held && !all.have(p.loan.nodes)
	s.mu.Unlock()
	if !missing {
		return nil
	}
	if err := s.giveBack(ctx, p, false); err != nil {
		return err
	}
	return driver.ErrGone
}

// isFirst notes that the ticket is first in locks. While Join waits, it goes on from
// there; else pursue does.
func (s *session) isFirst(ctx context.Context, p *place) error {
	s.mu.Lock()
	p.loan.first = true
	pursued := p.loan.pursued
	s.mu.Unlock()
	if pursued {
		return nil
	}
	return s.grantLeases(ctx, p, false)
}

// grantLeases grants a ticket that is first in locks, if its leases fit.
func (s *session) grantLeases(ctx context.Context, p *place, watch bool) error {
	if p.known() != waiting {
		return nil
	}
	if fits, err := s.lend(ctx, p, watch); !fits || err != nil {
		return err
	}
	return s.granted(ctx, p, false)
}

// lend makes the leases of a ticket that is first in locks, and reports whether it
// holds by them. With watch, the server watches leases.
func (s *session) lend(ctx context.Context, p *place, watch bool) (bool, error) {
	s.mu.Lock()
	begun, nodes := p.loan.begun, p.loan.nodes
	s.mu.Unlock()
	if begun && nodes == nil {
		if err := s.recover(ctx, p); err != nil {
			return false, err
		}
		s.mu.Lock()
		nodes = p.loan.nodes
		s.mu.Unlock()
	}
	if nodes == nil {
		if err := s.borrow(ctx, p); errors.Is(err, driver.ErrGone) {
			if all, e := s.l.leases(ctx, p.q, false); e == nil {
				if _, mismatch := all.otherLimit(p.req.Capacity); mismatch {
					s.refuse(p) // it was expelled
				}
			}
			return false, err
		} else if err != nil {
			return false, err
		}
	}
	all, err := s.l.leases(ctx, p.q, watch)
	if err != nil {
		return false, err
	}
	other, mismatch := all.otherLimit(p.req.Capacity)
	if nodes == nil && !mismatch && !watch { // who waits, waits behind some of this kind
		if other, mismatch, err = s.otherKind(ctx, p.q); err != nil {
			return false, err
		}
		if mismatch && !other.plain && other.kind != driver.Barrier && all[0].id != p.req.ID {
			late, err := s.comesAfter(ctx, parent(p.q.path)+"/"+other.node, p.q.leases.path+"/"+all[0].node)
			if err != nil {
				return false, err
			}
			mismatch = !late // else it is refused, because of that lease or of this ticket
		}
	}
	s.mu.Lock()
	nodes = p.loan.nodes
	s.mu.Unlock()
	switch {
	case !all.have(nodes):
		err = driver.ErrGone // somebody has taken some away
	case mismatch:
		s.refuse(p)
		err = fmt.Errorf("%w: the ticket %s is there", driver.ErrMismatch, other.node)
	}
	if err != nil {
		if e := s.giveBack(ctx, p, false); e != nil && !errors.Is(e, driver.ErrGone) {
			return false, e
		}
		return false, err
	}
	s.mu.Lock()
	fits := p.loan.fits
	s.mu.Unlock()
	if !fits && int64(len(all)) > p.req.Capacity {
		return false, nil
	}
	if !fits {
		heir, err := s.leaseHeir(ctx, p, all)
		if err != nil {
			return false, err
		}
		// From here on others may come in: it is not counted again.
		s.mu.Lock()
		p.loan.fits, p.heir = true, heir
		s.mu.Unlock()
	}
	return true, s.unlock(ctx, p)
}

// otherKind finds a ticket of another kind at the name of a semaphore.
func (s *session) otherKind(ctx context.Context, q *lane) (name, bool, error) {
	c, err := s.l.List(ctx, parent(q.path), false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return name{}, false, err
	}
	all := parseAll(c.Names)
	if len(all) == 0 && s.d.names.barriers {
		if all, err = s.d.attendees(ctx, s.l, &lane{path: parent(q.path)}, c.Names); err != nil {
			return name{}, false, err
		}
	}
	if set, ok := keptIn(c.Names); ok && len(all) == 0 {
		return name{node: set, kind: driver.Semaphore}, true, nil
	}
	if len(all) > 0 {
		return all[0], true, nil
	}
	return name{}, false, nil
}

// comesAfter reports whether a ticket has joined after a node was made that still stands.
func (s *session) comesAfter(ctx context.Context, ticket, node string) (bool, error) {
	t, err := s.l.Get(ctx, ticket)
	if errors.Is(err, zk.ErrNoNode) {
		return true, nil // it has left
	}
	if err != nil {
		return false, err
	}
	n, err := s.l.Get(ctx, node)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil && uint64(n.Stat.Czxid) < joined(t), err
}

// borrow makes all leases of a ticket at once, as long as it stands in locks: a
// request that is late makes none.
func (s *session) borrow(ctx context.Context, p *place) error {
	for attempts := 0; ; attempts++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		flight := make(chan struct{})
		s.mu.Lock()
		p.loan.begun, p.flight = true, flight
		units, lock := p.loan.units, p.path()
		data := p.meta()
		s.mu.Unlock()
		ops := []any{&zk.Check{Path: lock, Version: -1}}
		stem := p.q.leases.path + "/" + fmt.Sprintf("_c_%s-of%d-lease-", uuid(p.req.ID), p.req.Capacity)
		for range units {
			ops = append(ops, &zk.Create{Path: stem, Data: data, Acl: s.d.acl, Flags: zk.EphemeralSequential})
			data = nil // the first says it
		}
		failed, err := zk.Run(ctx, func() (int, error) {
			defer close(flight)
			answers, err := s.l.Conn.Multi(ops...)
			for i, a := range answers {
				if a.Error != nil {
					return i, a.Error
				}
			}
			if err == nil {
				s.lent(p, answers[1:])
			}
			return 0, err
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoNode) && failed > 0 && attempts < 10:
			if err := s.d.lay(ctx, s.l, p.q.leases.path, !p.req.ReportDeath); err != nil {
				return err
			}
		case sure(err):
			gone := errors.Is(err, zk.ErrNoNode) && failed == 0
			if e := s.giveBack(ctx, p, false); e != nil && !errors.Is(e, driver.ErrGone) {
				return e
			}
			if gone {
				return driver.ErrGone
			}
			return err
		default:
			return err
		}
	}
}

// lent notes the leases that were made, perhaps when nobody waits for them any
// more.
func (s *session) lent(p *place, made []zk.Result) {
	nodes := make([]string, len(made))
	for i, m := range made {
		nodes[i] = m.String[strings.LastIndexByte(m.String, '/')+1:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.loan.nodes = nodes
	if p.state == gone {
		s.scrap(p)
	}
}

// scrap removes the leases of a ticket that was taken away; s.mu is held.
func (s *session) scrap(p *place) {
	nodes := p.loan.nodes
	if len(nodes) == 0 {
		return
	}
	s.d.background(func(ctx context.Context) {
		for _, n := range nodes {
			s.purge(ctx, p.q.leases.path+"/"+n)
		}
	})
}

// seen notes when the ticket has joined, from its node in locks.
func (p *place) seen(c content) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.loan.since = c.Stat.Ctime
}

// recover finds the leases whose creation had no answer.
func (s *session) recover(ctx context.Context, p *place) error {
	if err := p.settled(ctx); err != nil {
		return err
	}
	if err := s.l.CatchUp(ctx, p.q.leases.path); err != nil {
		return err
	}
	all, err := s.l.leases(ctx, p.q, false)
	if err != nil {
		return err
	}
	mine := all.of(p.req.ID)
	if len(mine) == 0 {
		return nil
	}
	c, err := s.l.Get(ctx, p.q.leases.path+"/"+mine[0])
	if err != nil {
		return err
	}
	if c.Stat.EphemeralOwner != s.zk {
		return nil // they are about to go away
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.loan.nodes = mine
	return nil
}

// unlock leaves locks to the next one.
func (s *session) unlock(ctx context.Context, p *place) error {
	s.mu.Lock()
	n, whole := p.n, p.loan.units == p.req.Capacity
	s.mu.Unlock()
	path := p.q.path + "/" + n.node
	var marks []any
	mark := func(q *lane, number int32) error {
		ours, err := s.d.mayMark(ctx, s.l, q)
		if ours {
			marks = append(marks, &zk.Write{Path: q.path, Data: markOf(number), Version: -1})
		}
		return err
	}
	err := mark(p.q, n.number)
	if err == nil && whole {
		err = mark(p.q.leases, unclean)
	}
	if err != nil {
		return err
	}
	err = s.d.removeAndMark(ctx, s.l, []*lane{p.q, p.q.leases}, []string{path}, marks)
	if errors.Is(err, zk.ErrNoNode) { // it was done, and the reply was lost
		return nil
	}
	return err
}

// removeAndMark removes nodes and leaves marks where that is allowed.
func (d *Driver) removeAndMark(ctx context.Context, l *link, marked []*lane, paths []string, marks []any) error {
	ops := marks
	for _, path := range paths {
		ops = append(ops, &zk.Delete{Path: path, Version: -1})
	}
	_, err := l.Multi(ctx, ops...)
	if len(marks) == 0 || !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	for _, q := range marked {
		q.mu.Lock()
		q.denied = true
		q.mu.Unlock()
	}
	_, err = l.Multi(ctx, ops[len(marks):]...)
	return err
}

// mayMark reports whether the data of a node are ours to write.
func (d *Driver) mayMark(ctx context.Context, l *link, q *lane) (bool, error) {
	q.mu.Lock()
	seen, may := q.seen, !q.foreign && !q.denied
	q.mu.Unlock()
	if seen || !may {
		return may, nil
	}
	c, err := l.Get(ctx, q.path)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return q.learn(c.Data), nil
}

// The data of leases: the number of the last lease of the last ticket that had the
// whole semaphore and left cleanly, or this, from when such a ticket holds.
const unclean = -1

// leaseHeir finds out whether the last one who had the whole semaphore has left
// cleanly. Where there is one lease, all have had it, those of Curator, too, who leave
// no mark.
func (s *session) leaseHeir(ctx context.Context, p *place, all line) (bool, error) {
	if !p.req.ReportDeath {
		return false, nil
	}
	c, err := s.l.Get(ctx, p.q.leases.path)
	if err != nil {
		return false, err
	}
	if !p.q.leases.learn(c.Data) {
		return true, nil
	}
	number, ok := marked(c.Data)
	if number == unclean && ok {
		return true, nil
	}
	if p.req.Capacity > 1 {
		return false, nil
	}
	first := all[0].number // its own
	if !ok {
		number = -1
	}
	return first != number+1, nil
}

// giveBack takes a ticket out of locks and removes its leases.
func (s *session) giveBack(ctx context.Context, p *place, clean bool) error {
	s.mu.Lock()
	was, nodes, whole := p.state, p.loan.nodes, p.loan.units == p.req.Capacity
	s.mu.Unlock()
	if was == gone {
		return driver.ErrGone
	}
	if was == held {
		err := s.remit(ctx, p, nodes, clean && whole)
		if err == nil {
			s.mu.Lock()
			p.forget()
			s.mu.Unlock()
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	// Once it is not in locks any more, no leases can be made: they are looked for
	// after that.
	if err := p.settled(ctx); err != nil {
		return err
	}
	if err := s.l.CatchUp(ctx, p.q.path); err != nil {
		return err
	}
	found := false
	locks, err := s.l.List(ctx, p.q.path, false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for _, n := range parseAll(locks.Names) {
		if n.id != p.req.ID {
			continue
		}
		err := s.l.Remove(ctx, p.q.path+"/"+n.node)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		found = true
	}
	all, err := s.l.leases(ctx, p.q, false)
	if err != nil {
		return err
	}
	if mine := all.of(p.req.ID); len(mine) > 0 {
		if err := s.remit(ctx, p, mine, clean && whole && was == held); err != nil {
			return err
		}
		found = true
	}
	s.mu.Lock()
	p.forget()
	s.mu.Unlock()
	if !found {
		return driver.ErrGone
	}
	return nil
}

// remit removes leases, and with mark says that the whole semaphore was left
// cleanly.
func (s *session) remit(ctx context.Context, p *place, nodes []string, mark bool) error {
	q := p.q.leases
	var paths []string
	var last name
	for _, node := range nodes {
		paths = append(paths, q.path+"/"+node)
		last = parseLease(node)
	}
	var marks []any
	if mark {
		may, err := s.d.mayMark(ctx, s.l, q)
		if err != nil {
			return err
		}
		if may {
			marks = append(marks, &zk.Write{Path: q.path, Data: markOf(last.number), Version: -1})
		}
	}
	return s.d.removeAndMark(ctx, s.l, []*lane{q}, paths, marks)
}

// shrinkLoan gives leases back, or asks for fewer.
func (s *session) shrinkLoan(ctx context.Context, p *place, units int64) error {
	s.mu.Lock()
	have, begun, nodes := p.loan.units, p.loan.begun, p.loan.nodes
	s.mu.Unlock()
	if units >= have {
		return nil
	}
	if begun && nodes == nil {
		if err := s.recover(ctx, p); err != nil {
			return err
		}
		s.mu.Lock()
		nodes = p.loan.nodes
		s.mu.Unlock()
	}
	if nodes == nil {
		err := s.rename(ctx, p, zk.Ephemeral, func(n name) name {
			n.wants = min(n.wants, units)
			return n
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		p.loan.units = units
		s.mu.Unlock()
		return nil
	}
	// Those that are gone already were given back by a call without an answer.
	all, err := s.l.leases(ctx, p.q, false)
	if err != nil {
		return err
	}
	mine := all.of(p.req.ID)
	if !all.have(nodes[:units]) {
		if err := s.giveBack(ctx, p, false); err != nil {
			return err
		}
		return driver.ErrGone
	}
	if int64(len(mine)) > units {
		err := s.remit(ctx, p, mine[units:], p.known() == held && have == p.req.Capacity)
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.loan.units, p.loan.nodes = units, nodes[:units]
	return nil
}
