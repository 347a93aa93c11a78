package curator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// Demands for tickets are put into a node of their session, a line each:
//
//	<demand> <ID> <queue>
//
// so that a session watches one node, however many tickets it has.
var verbs = map[string]driver.Demand{"revoke": driver.Revoke, "evict": driver.Evict, "force": driver.Force}

func letter(what driver.Demand, queue, id string) string {
	for verb, d := range verbs {
		if d == what {
			return fmt.Sprintf("%s %s %s\n", verb, id, queue)
		}
	}
	return ""
}

// read takes what was put into the session's node, and watches it.
func (s *session) read(ctx context.Context) {
	if s.reading.take(ctx) != nil {
		return
	}
	defer s.reading.give()
	s.mu.Lock()
	if s.letters != nil {
		if _, fired := s.letters.Fired(); !fired {
			s.mu.Unlock()
			return
		}
	}
	w := s.l.watch(s.post, false, s.bell)
	s.letters = w
	s.mu.Unlock()
	c, err := s.l.See(ctx, s.post)
	if err != nil {
		s.l.Ignore(w)
		s.mu.Lock()
		if s.letters == w {
			s.letters = nil
		}
		s.mu.Unlock()
		if errors.Is(err, zk.ErrNoNode) {
			_ = s.openPost(ctx)
			ring(s.bell)
		}
		return
	}
	if len(c.Data) == 0 {
		return
	}
	for _, l := range lettersIn(c.Data) {
		s.demanded(l.Demand, l.Queue, l.ID)
	}
	// If more has come meanwhile, it stays, and all of it is read again.
	_, _ = s.l.Set(ctx, s.post, nil, c.Stat.Version)
}

func lettersIn(data []byte) (all []driver.Signal) {
	for line := range strings.SplitSeq(string(data), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		id, queue, ok := strings.Cut(rest, " ")
		if what := verbs[verb]; ok && what != 0 {
			all = append(all, driver.Signal{Demand: what, Queue: queue, ID: id})
		}
	}
	return all
}

func (s *session) demanded(what driver.Demand, queue, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[id]
	if p == nil || p.q.name != queue {
		return
	}
	switch what {
	case driver.Force:
		s.signals.Add(driver.Evict, queue, id)
		p.forget()
		s.scrap(p)
	case driver.Evict:
		s.signals.Add(driver.Evict, queue, id)
		if !p.evicted && !p.fixed {
			p.evicted, p.end = true, p.extended.Add(s.ttl)
		}
	default:
		s.signals.Add(what, queue, id)
	}
}

func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	q := d.lane(queue)
	l, err := d.link(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.failed(d.certain(ctx, l, q, func() error { return d.ask(ctx, l, q, id, what) }))
}

func (d *Driver) ask(ctx context.Context, l *link, q *lane, id string, what driver.Demand) error {
	all, set, err := d.queue(ctx, l, q)
	if err != nil {
		return err
	}
	i, ok := all.place(id)
	if !ok {
		return driver.ErrGone
	}
	n := all[i]
	if err := d.legible(q, &set); err != nil && what == driver.Evict { // whether it is held is not known
		return err
	}
	path := q.path + "/" + n.node
	c, err := l.ticket(ctx, q, &n)
	if errors.Is(err, zk.ErrNoNode) {
		return driver.ErrGone
	}
	if err != nil {
		return err
	}
	switch remove := what == driver.Force || what == driver.Evict && !all.holds(i) && !n.unsure; {
	case remove:
		var ops []any
		for _, node := range n.nodes() {
			ops = append(ops, &zk.Delete{Path: q.path + "/" + node, Version: -1})
		}
		if what == driver.Evict { // only as long as it waits
			ops = append(ops, q.unchanged(&n)...)
			for _, o := range all.view(i).obstacles {
				ops = append(ops, &zk.Check{Path: q.path + "/" + o.node, Version: -1})
			}
		}
		letters, err := d.letters(ctx, l, c.Stat.EphemeralOwner, letter(driver.Force, q.name, id))
		if err != nil {
			return err
		}
		_, err = l.Multi(ctx, append(ops, letters...)...)
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) {
			return d.ask(ctx, l, q, id, what) // the line has changed
		}
		return err
	case what == driver.Evict && n.until != 0:
		return d.refix(ctx, l, q, id, func(n *name, now int64, m meta) {
			n.until, n.evicted = min(n.until, now+ceil(m.TTL)), true
		})
	}
	if _, own := decode(c.Data); !own {
		if n.layout.kazoo {
			return errDeaf
		}
		_, err := l.Set(ctx, path, []byte(revocation), -1)
		if errors.Is(err, zk.ErrNoNode) {
			return driver.ErrGone
		}
		return err
	}
	// The line may be older than what other clients have seen: that the ticket stands
	// is for the leader to say.
	ops := []any{&zk.Check{Path: path, Version: -1}}
	if c.Stat.EphemeralOwner != 0 { // else its session may be gone
		letters, err := d.letters(ctx, l, c.Stat.EphemeralOwner, letter(what, q.name, id))
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			return zk.ErrNoNode
		}
		ops = append(ops, letters...)
	}
	_, err = l.Multi(ctx, ops...)
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		return d.ask(ctx, l, q, id, what) // the ticket has changed, or other letters have come
	}
	return err
}

// errDeaf: kazoo does not look at the node of its lock. The data there are its own.
var errDeaf = driver.Invalid(errors.New("zookeeper: a lock of kazoo cannot be asked for: kazoo holds it until it is released or its program ends; only force takes it away"))

// letters returns what puts a letter into the nodes of a session, of which each of our
// sessions on its connection has one.
func (d *Driver) letters(ctx context.Context, l *link, session int64, letter string) (ops []any, err error) {
	if session == 0 {
		return nil, nil
	}
	found, err := l.List(ctx, d.aside("post"), false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	for _, node := range found.Names {
		if !strings.HasPrefix(node, hexID(session)+"-") {
			continue
		}
		path := d.aside("post", node)
		c, err := l.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if c.Stat.EphemeralOwner != session {
			continue // somebody else has put it there
		}
		data := append(c.Data, letter...)
		if err := checkData(path, data); err != nil {
			return nil, err
		}
		ops = append(ops, &zk.Write{Path: path, Data: data, Version: c.Stat.Version})
	}
	return ops, nil
}
