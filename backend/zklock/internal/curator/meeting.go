package curator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// With barrier=curator, a double barrier is Curator's DistributedDoubleBarrier:
//
//	<UUID>  a member, ephemeral
//	ready   the round has begun: whoever comes now is in it, too
//
// Members leave as Curator's do: the lowest UUID stays until it is alone, the others
// go at once and wait for that; the last one removes ready. So a ticket with the
// lowest UUID that leaves stays for the others, marked as one that has left, and is
// removed in the background.

const ready = "ready"

// meetings are what a driver remembers of rounds.
type meetings struct {
	mu   sync.Mutex
	left map[string]departure // by ID of the ticket
}

// departure is a ticket that has left while its round went on.
type departure struct {
	queue string
	round uint64 // the transaction that made ready
	at    driver.Instant
}

var errFixedMember = driver.Invalid(errors.New("zookeeper: with barrier=curator a member ends with its session, never at a fixed time"))

// memberID returns the ID of a member's node.
func memberID(node string) (string, bool) {
	if len(node) != 36 {
		return "", false
	}
	id := strings.ReplaceAll(strings.ToLower(node), "-", "")
	return id, driver.CheckID(id) == nil
}

// enroll makes the node of a member, or finds it.
func (s *session) enroll(ctx context.Context, p *place) error {
	if err := p.settled(ctx); err != nil {
		return err
	}
	n := name{node: uuid(p.req.ID), id: p.req.ID, kind: driver.Barrier, units: 1, capacity: driver.RWCapacity}
	path := p.q.path + "/" + n.node
	if err := s.prepare(ctx, p.q); err != nil {
		return err
	}
	for attempts := 0; ; attempts++ {
		flight := make(chan struct{})
		s.mu.Lock()
		p.flight = flight
		data := p.meta()
		s.mu.Unlock()
		_, err := zk.Run(ctx, func() (string, error) {
			defer close(flight)
			made, err := s.l.Conn.Create(path, data, zk.Ephemeral, s.d.acl)
			if err == nil && p.known() == gone {
				s.d.background(func(ctx context.Context) { s.purge(ctx, path) })
			}
			return made, err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode) && attempts < 10:
			if err := s.d.lay(ctx, s.l, p.q.path, true); err != nil {
				return err
			}
			continue
		case err != nil && !errors.Is(err, zk.ErrNodeExists):
			if sure(err) {
				s.drop(p)
			}
			return err
		}
		c, err := s.l.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return zk.ErrConnectionClosed // it was taken away: the caller asks again
		}
		if err != nil {
			return err
		}
		if c.Stat.EphemeralOwner != s.zk { // of an earlier session of ours
			if err := s.l.Remove(ctx, path); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			continue
		}
		if err := p.stands(n, uint64(c.Stat.Czxid)); err != nil {
			return err
		}
		break
	}
	return s.attendance(ctx, p)
}

// prepare ends a round all members of which have died, or refuses what is no double
// barrier.
func (s *session) prepare(ctx context.Context, q *lane) error {
	if err := s.l.CatchUp(ctx, q.path); err != nil {
		return err
	}
	c, err := s.l.List(ctx, q.path, false)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	all := parseAll(c.Names)
	if len(all) == 0 && s.d.names.leases && s.d.lent(c.Names) {
		if all, err = s.d.semaphore(ctx, s.l, q, false); err != nil {
			return err
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("%w: the ticket %s is there", driver.ErrMismatch, all[0].node)
	}
	if set, ok := keptIn(c.Names); ok {
		return fmt.Errorf("%w: the number of permits %s is there", driver.ErrMismatch, set)
	}
	if slices.Contains(c.Names, ready) && !slices.ContainsFunc(c.Names, func(n string) bool { _, ok := memberID(n); return ok }) {
		if err := s.l.Remove(ctx, q.path+"/"+ready); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// attendance sees whether a member's node is there, and grants the ticket, which is
// always held.
func (s *session) attendance(ctx context.Context, p *place) error {
	c, err := s.l.Get(ctx, p.q.path+"/"+uuid(p.req.ID))
	if err == nil && c.Stat.EphemeralOwner == s.zk && !leaving(c) {
		if p.known() != waiting {
			return nil
		}
		s.mu.Lock()
		p.told = true // nobody waits behind it
		s.mu.Unlock()
		return s.granted(ctx, p, false)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	s.mu.Lock()
	p.forget()
	s.mu.Unlock()
	return driver.ErrGone
}

func leaving(c content) bool {
	m, ok := decode(c.Data)
	return ok && m.Leaving
}

// depart takes a member out. The lowest stays until it is alone.
func (s *session) depart(ctx context.Context, p *place) error {
	if err := p.settled(ctx); err != nil {
		return err
	}
	path := p.q.path + "/" + uuid(p.req.ID)
	if err := s.l.CatchUp(ctx, path); err != nil {
		return err
	}
	members, isReady, err := s.present(ctx, p.q)
	if err != nil {
		return err
	}
	lowest := len(members) > 0 && members[0] == uuid(p.req.ID)
	switch {
	case isReady && lowest && len(members) > 1:
		err = s.stayLast(ctx, p, path)
	case isReady && lowest:
		err = s.endRound(ctx, p.q, path)
	default:
		err = s.l.Remove(ctx, path)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	gone := errors.Is(err, zk.ErrNoNode)
	s.mu.Lock()
	round := p.round
	p.forget()
	s.mu.Unlock()
	if round != 0 {
		s.d.meetings.add(p.req.ID, departure{p.q.name, round, s.d.Now()})
	}
	if gone {
		return driver.ErrGone
	}
	return nil
}

func (m *meetings) add(id string, d departure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == nil {
		m.left = map[string]departure{}
	}
	for id, o := range m.left {
		if d.at.Sub(o.at) > time.Hour {
			delete(m.left, id)
		}
	}
	m.left[id] = d
}

// of returns who has left a round that goes on.
func (m *meetings) of(queue string, round uint64) (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, d := range m.left {
		if d.queue == queue && d.round == round {
			ids = append(ids, id)
		}
	}
	return ids
}

// present lists the nodes of members, in the order in which they leave.
func (s *session) present(ctx context.Context, q *lane) (members []string, isReady bool, err error) {
	c, err := s.l.List(ctx, q.path, false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, false, err
	}
	for _, node := range c.Names {
		if _, ok := memberID(node); ok {
			members = append(members, node)
		}
		isReady = isReady || node == ready
	}
	slices.Sort(members)
	return members, isReady, nil
}

// stayLast marks the lowest member as one that has left, and removes it once it is alone.
func (s *session) stayLast(ctx context.Context, p *place, path string) error {
	c, err := s.l.Get(ctx, path)
	if err != nil {
		return err
	}
	m, _ := decode(c.Data)
	m.Leaving = true
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err = s.l.Set(ctx, path, data, -1); err != nil {
		return err
	}
	s.d.background(func(ctx context.Context) {
		ctx, cancel := s.within(ctx)
		defer cancel()
		for ctx.Err() == nil {
			bell := make(chan struct{}, 1)
			w := s.l.watch(p.q.path, true, bell)
			c, err := s.l.List(ctx, p.q.path, true)
			others := false
			for _, node := range c.Names {
				_, ok := memberID(node)
				others = others || ok && node != uuid(p.req.ID)
			}
			if err == nil && !others {
				if err = s.endRound(ctx, p.q, path); err == nil {
					err = zk.ErrNoNode
				}
			}
			if errors.Is(err, zk.ErrNoNode) {
				s.l.Ignore(w)
				return
			}
			most := time.Duration(0)
			if err != nil {
				most = again
			}
			_ = pause(ctx, bell, most)
			s.l.Ignore(w)
		}
		if !s.l.Own { // the program's connection would keep it
			s.purge(context.WithoutCancel(ctx), path)
		}
	})
	return nil
}

// endRound removes the last member, and ready with it.
func (s *session) endRound(ctx context.Context, q *lane, path string) error {
	_, err := s.l.Multi(ctx, &zk.Delete{Path: path, Version: -1}, &zk.Delete{Path: q.path + "/" + ready, Version: -1})
	if errors.Is(err, zk.ErrNoNode) { // another of the last has removed ready
		return s.l.Remove(ctx, path)
	}
	return err
}

// roundOf returns the queue of a double barrier whose round the cell holds. The value is
// made of what stands: who is in the round, and those of this driver who have left it. Since
// whoever comes late is in it, too, the version is that of the nodes that stand.
func (d *Driver) roundOf(cell string) (*lane, bool) {
	name, ok := strings.CutSuffix(cell, "/round")
	if !ok || !d.names.barriers || driver.CheckName(name) != nil {
		return nil, false
	}
	return d.laneOf(name, driver.Barrier), true
}

func (d *Driver) loadRound(ctx context.Context, q *lane) (driver.Cell, error) {
	l, err := d.link(ctx)
	if err != nil {
		return driver.Cell{}, err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	if err := l.CatchUp(ctx, q.path); err != nil {
		return driver.Cell{}, d.failed(err)
	}
	// ready first: who stands after that was in time.
	stat, err := l.Exists(ctx, q.path+"/"+ready)
	if err != nil || stat == nil {
		return driver.Cell{}, d.failed(err)
	}
	c, err := l.List(ctx, q.path, false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return driver.Cell{}, d.failed(err)
	}
	round := uint64(stat.Czxid)
	now := driver.Round{Members: d.meetings.of(q.name, round)}
	if slices.Contains(c.Names, ready) {
		for _, node := range c.Names {
			if id, ok := memberID(node); ok {
				now.Members = append(now.Members, id)
				d.attends(q, id, round)
			}
		}
	}
	if c.Stat == nil {
		return driver.Cell{}, nil // all is gone meanwhile
	}
	value, err := json.Marshal(now)
	return driver.Cell{Version: uint64(c.Stat.Pzxid), Exists: true, Value: value}, err
}

// attends notes the round that a ticket of this driver is in.
func (d *Driver) attends(q *lane, id string, round uint64) {
	d.mu.Lock()
	sessions := make([]*session, 0, len(d.sessions))
	for s := range d.sessions {
		sessions = append(sessions, s)
	}
	d.mu.Unlock()
	for _, s := range sessions {
		if p := s.place(id); p != nil && p.q.name == q.name {
			s.mu.Lock()
			p.round = round
			s.mu.Unlock()
		}
	}
}

// beginRound makes ready, if all whom the round is to begin with stand.
func (d *Driver) beginRound(ctx context.Context, l *link, q *lane, w *driver.Swap) (driver.Cell, error) {
	var next driver.Round
	if err := json.Unmarshal(w.Value, &next); err != nil || w.Version != 0 {
		return driver.Cell{}, driver.ErrConflict
	}
	path := q.path + "/" + ready
	var ops []any
	for _, id := range next.Members {
		if driver.CheckID(id) != nil {
			return driver.Cell{}, driver.ErrConflict
		}
		ops = append(ops, &zk.Check{Path: q.path + "/" + uuid(id), Version: -1})
	}
	ops = append(ops, &zk.Create{Path: path, Acl: d.acl, Flags: zk.Persistent})
	_, err := l.Multi(ctx, ops...)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) {
		return driver.Cell{}, driver.ErrConflict
	}
	if err != nil {
		return driver.Cell{}, err
	}
	c, err := d.loadRound(ctx, q)
	if err == nil && !c.Exists { // it is over already
		err = driver.ErrConflict
	}
	return c, err
}

func (d *Driver) watchRound(ctx context.Context, q *lane, after uint64) (found driver.Cell, err error) {
	err = d.retrying(ctx, func(ctx context.Context, l *link) (bool, error) {
		bell := make(chan struct{}, 1)
		w := l.watch(q.path+"/"+ready, false, bell)
		defer l.Ignore(w)
		stat, err := l.Exists(ctx, q.path+"/"+ready)
		if err != nil {
			return false, err
		}
		now := uint64(0)
		if stat != nil {
			members := l.watch(q.path, true, bell)
			defer l.Ignore(members)
			c, err := l.List(ctx, q.path, true)
			if errors.Is(err, zk.ErrNoNode) {
				return false, nil // it is gone meanwhile: look again
			}
			if err != nil {
				return false, err
			}
			now = uint64(c.Stat.Pzxid)
		}
		if now != after {
			found, err = d.loadRound(ctx, q)
			return err == nil && found.Version != after, err
		}
		return false, pause(ctx, bell, 0)
	})
	return found, err
}

// attendees lists the members of a double barrier, in no order. Queues may have names
// like theirs, but are not ephemeral.
func (d *Driver) attendees(ctx context.Context, l *link, q *lane, nodes []string) (line, error) {
	var all line
	for _, node := range nodes {
		id, ok := memberID(node)
		if !ok {
			continue
		}
		c, err := l.Get(ctx, q.path+"/"+node)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if owner := c.Stat.EphemeralOwner; owner == 0 || owner == containerOwner || leaving(c) {
			continue
		}
		all = append(all, name{node: node, id: id, kind: driver.Barrier, units: 1, capacity: driver.RWCapacity})
	}
	return all, nil
}
