package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
)

// Demands for tickets are put into a node of their session, a line each:
//
//	<demand> <ID> <queue>
//
// so that a session watches one node, however many tickets it has.
var verbs = []string{driver.Revoke: "revoke", driver.Evict: "evict", driver.Force: "force"}

func letter(what driver.Demand, queue, id string) string {
	return fmt.Sprintf("%s %s %s\n", verbs[what], id, queue)
}

func lettersIn(data []byte) (all []driver.Signal) {
	for line := range strings.SplitSeq(string(data), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		id, queue, ok := strings.Cut(rest, " ")
		if what := slices.Index(verbs, verb); ok && what > 0 {
			all = append(all, driver.Signal{Demand: driver.Demand(what), Queue: queue, ID: id})
		}
	}
	return all
}

func (s *session) openInbox(ctx context.Context) error {
	return s.store.laid(ctx, s.l, parent(s.inbox), false, func() error {
		return zk.Unless(s.l.Make(ctx, s.inbox, nil, zk.Ephemeral, s.store.acl), zk.ErrNodeExists)
	})
}

// readInbox takes what was put into the session's node, and watches it.
func (s *session) readInbox(ctx context.Context) {
	if s.reading.Take(ctx) != nil {
		return
	}
	defer s.reading.Give()
	if s.letters.Live() {
		return
	}
	s.letters = s.l.Watch(s.inbox, false, func() { s.background(s.readInbox) })
	c, err := s.l.See(ctx, s.inbox)
	if err != nil {
		s.l.Ignore(s.letters)
		s.letters = nil
		if errors.Is(err, zk.ErrNoNode) && s.openInbox(ctx) == nil {
			s.background(s.readInbox)
		}
		return
	}
	if len(c.Data) == 0 {
		return
	}
	for _, l := range lettersIn(c.Data) {
		if t := s.entry(l.ID); t != nil && t.q.name == l.Queue {
			t.demanded(l.Demand)
		}
	}
	// If more has come meanwhile, it stays, and all of it is read again.
	_, _ = s.l.Set(ctx, s.inbox, nil, c.Stat.Version)
}

// Ask puts a demand into the node of a ticket's session, or removes the ticket.
func (s *store) Ask(ctx context.Context, name, id string, what driver.Demand) (bool, error) {
	return false, s.with(ctx, func(ctx context.Context, l *link) error {
		q := s.queue(name)
		return certain(ctx, l, q, func() error {
			return anew(func() error { return s.ask(ctx, l, q, id, what) })
		})
	})
}

func (s *store) ask(ctx context.Context, l *link, q *queue, id string, what driver.Demand) error {
	f, err := s.readAll(ctx, l, q)
	if err != nil {
		return err
	}
	t, ok := f.Find(id)
	if !ok {
		return driver.ErrGone
	}
	if err := s.legible(q, &f.number); err != nil && what == driver.Evict { // whether it is held is not known
		return err
	}
	path := q.path + "/" + t.node
	c, err := l.Get(ctx, path)
	if err != nil {
		return stale(err)
	}
	p := f.Place(t)
	switch remove := what == driver.Force || what == driver.Evict && !p.Held && !f.Perhaps(t); {
	case remove:
		ops := []any{&zk.Delete{Path: path, Version: -1}}
		for _, node := range t.more {
			ops = append(ops, &zk.Delete{Path: q.path + "/" + node, Version: -1})
		}
		if what == driver.Evict { // only as long as it waits
			ops = append(ops, f.unchanged(q, t)...)
			obstacles, _ := p.Obstacles()
			for _, o := range obstacles {
				ops = append(ops, &zk.Check{Path: q.path + "/" + o.node, Version: -1})
			}
		}
		letters, err := s.letters(ctx, l, c.Stat.EphemeralOwner, letter(driver.Force, q.name, id))
		if err != nil {
			return err
		}
		_, err = l.Multi(ctx, append(ops, letters...)...)
		if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) {
			return errStale // the line has changed
		}
		return stale(err)
	case what == driver.Evict && t.until != 0:
		return s.evict(ctx, l, q, id)
	}
	m, own := decode(c.Data)
	if !own {
		if t.layout.kazoo {
			return errDeaf
		}
		_, err := l.Set(ctx, path, []byte(revocation), -1)
		return stale(err)
	}
	if c.Stat.EphemeralOwner == 0 {
		m.Revoked = true
		_, err := l.Set(ctx, path, m.encode(), c.Stat.Version)
		return stale(err)
	}
	// The line may be older than what other clients have seen: that the ticket stands
	// is for the leader to say.
	letters, err := s.letters(ctx, l, c.Stat.EphemeralOwner, letter(what, q.name, id))
	if err != nil {
		return err
	}
	if len(letters) == 0 {
		return zk.ErrNoNode
	}
	_, err = l.Multi(ctx, append(letters, &zk.Check{Path: path, Version: -1})...)
	return stale(err) // other letters may have come
}

// errDeaf: kazoo does not look at the node of its lock. The data there are its own.
var errDeaf = driver.Invalid(errors.New("zookeeper: a lock of kazoo cannot be asked for: kazoo holds it until it is released or its program ends; only force takes it away"))

// letters returns what puts a letter into the nodes of a session, of which each of our
// sessions on its connection has one.
func (s *store) letters(ctx context.Context, l *link, session int64, letter string) (ops []any, err error) {
	if session == 0 {
		return nil, nil
	}
	found, err := l.List(ctx, s.aside("post"), false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	for _, node := range found.Names {
		if !strings.HasPrefix(node, hexID(session)+"-") {
			continue
		}
		path := s.aside("post", node)
		c, err := l.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if c.Stat.EphemeralOwner != session {
			continue // another program has put it there
		}
		data := append(c.Data, letter...)
		if err := checkData(path, data); err != nil {
			return nil, err
		}
		ops = append(ops, &zk.Write{Path: path, Data: data, Version: c.Stat.Version})
	}
	return ops, nil
}

// tellRemoved tells the sessions of these tickets that they are gone.
func (s *store) tellRemoved(ctx context.Context, l *link, q *queue, all []*ticket) (ops []any, err error) {
	contents, err := s.contents(ctx, l, q, all)
	if err != nil {
		return nil, err
	}
	letters := map[int64]string{}
	for i, t := range all {
		if c := contents[i]; c.Stat != nil { // else the transaction fails
			letters[c.Stat.EphemeralOwner] += letter(driver.Force, q.name, t.ID)
		}
	}
	for session, text := range letters {
		more, err := s.letters(ctx, l, session, text)
		if err != nil {
			return nil, err
		}
		ops = append(ops, more...)
	}
	return ops, nil
}

// contents reads the nodes of tickets, several at a time. One that is gone has no stat.
func (s *store) contents(ctx context.Context, l *link, q *queue, all []*ticket) ([]zk.Content, error) {
	contents, errs := make([]zk.Content, len(all)), make([]error, len(all))
	several(len(all), 16, func(i int) {
		c, err := l.Get(ctx, q.path+"/"+all[i].node)
		if errs[i] = zk.Unless(err, zk.ErrNoNode); err == nil {
			contents[i] = c
		}
	})
	return contents, errors.Join(errs...)
}
