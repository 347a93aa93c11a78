package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// mostFollowed bounds what is watched for followers, since none says that it has gone. One whose watch is dropped reads
// again after some seconds.
const mostFollowed = 1000

// follow has a follower told of the next event at a node, and of what it followed before no more. The caller then has
// the server watch it; if that fails it calls unfollow.
func (s *store) follow(f exchange.Follower, l *zk.Link, path string, children bool) {
	s.unfollow(f.Topic)
	s.mu.Lock()
	some, full := uint64(0), len(s.watched) >= mostFollowed
	for some = range s.watched {
		break
	}
	s.mu.Unlock()
	if full {
		s.unfollow(some)
	}
	s.followAlso(f, l, path, children)
}

// followAlso has the follower told of the next event at another node, too.
func (s *store) followAlso(f exchange.Follower, l *zk.Link, path string, children bool) {
	on := l.Watch(path, children, func() { s.tell(exchange.Event{Type: exchange.TopicChanged, Topic: f.Topic}) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched[f.Topic] = append(s.watched[f.Topic], func() { l.Ignore(on) })
}

func (s *store) unfollow(topic uint64) {
	s.mu.Lock()
	ends := s.watched[topic]
	delete(s.watched, topic)
	s.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Read reads a queue.
func (s *store) Read(ctx context.Context, name string, f exchange.Follower) (r exchange.Snapshot, err error) {
	err = s.with(ctx, func(ctx context.Context, l *link) error {
		q := s.queue(name)
		if f.Mailbox == "" { // else the caller has read it before
			if err := l.CatchUp(ctx, q.path); err != nil {
				return err
			}
		}
		err := anew(func() error {
			found, err := s.lineup(ctx, l, q, f)
			if err == nil {
				r.Queue, err = s.members(ctx, l, q, found, true)
			}
			return err
		})
		if err != nil && f.Mailbox != "" {
			s.unfollow(f.Topic)
		}
		return err
	})
	return r, err
}

// lineup lists a queue, which need not be there.
func (s *store) lineup(ctx context.Context, l *link, q *queue, f exchange.Follower) (*listing, error) {
	if f.Mailbox == "" {
		return s.readAll(ctx, l, q)
	}
	for {
		s.follow(f, l.Link, q.path, true)
		found, err := s.list(ctx, l, q, true)
		if err == nil {
			err = s.settle(ctx, l, q, found)
		}
		if err == nil {
			err = s.beside(ctx, l, q, found, func(path string) { s.followAlso(f, l.Link, path, true) })
		}
		switch {
		case errors.Is(err, zk.ErrNoNode):
			s.follow(f, l.Link, q.path, false)
			stat, err := l.Exists(ctx, q.path)
			if err != nil || stat == nil {
				return &listing{line: line{Whole: true}}, err
			}
		case !errors.Is(err, errStale):
			return found, err
		}
	}
}

// version tells states apart: the names of tickets say all that makes them differ.
func (f *listing) version() string {
	h := fnv.New128a()
	if f.Permits() > 0 {
		_, _ = fmt.Fprintln(h, f.Permits(), !f.number.Unset)
	}
	for _, t := range f.Keys {
		_, _ = h.Write([]byte(cmp.Or(t.shown, t.node) + "\n"))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// mostMembers bounds what is remembered of tickets.
const mostMembers = 10_000

// members reads the nodes of tickets. A token that is lost is 0, unless it may be adopted, by which a ticket with a fixed
// end keeps its token. It is errStale if the node of a ticket that stands has gone since the list was made: then that
// has another one.
func (s *store) members(ctx context.Context, l *link, q *queue, f *listing, adopted bool) (driver.Queue, error) {
	found := driver.Queue{Name: q.name, Version: f.version()}
	known := map[*ticket]member{}
	var unknown []*ticket
	var now int64
	s.mu.Lock()
	for _, t := range f.Keys {
		if m, ok := s.shown[q.path+"/"+t.node+t.shown]; ok {
			known[t] = m
		} else {
			unknown = append(unknown, t)
		}
	}
	s.mu.Unlock()
	if slices.ContainsFunc(f.Keys, func(t *ticket) bool { return t.until != 0 }) {
		var err error
		if now, _, _, err = s.clock(ctx, l); err != nil {
			return found, err
		}
	}
	contents, err := s.contents(ctx, l, q, unknown)
	if err != nil {
		return found, err
	}
	s.mu.Lock()
	if len(s.shown)+len(unknown) > mostMembers {
		clear(s.shown)
	}
	for i, t := range unknown {
		if contents[i].Stat != nil { // else it has just left
			known[t] = memberOf(t, contents[i])
			if _, ours := decode(contents[i].Data); ours && len(s.shown) < mostMembers { // the data of others may change
				s.shown[q.path+"/"+t.node+t.shown] = known[t]
			}
		}
	}
	s.mu.Unlock()
	if len(known) < len(f.Keys) {
		now, err := s.readAll(ctx, l, q)
		if err != nil {
			return found, err
		}
		for _, t := range f.Keys {
			_, there := known[t]
			if _, stands := now.Find(t.ID); stands && !there && t.ID != "" {
				return found, errStale
			}
		}
	}
	for _, t := range f.Keys {
		m, there := known[t]
		if !there {
			continue
		}
		m.Note = slices.Clone(m.Note)
		if p := f.Place(t); p.Held {
			m.Held = true
			if !m.told {
				add, err := s.floor(ctx, l, q, m.Token)
				switch m.Token = min(m.Token+add, driver.MaxToken-1); {
				case errors.Is(err, errIllegible) && !(adopted && t.until != 0):
					m.Token = 0
				case err != nil:
					return found, err
				}
			}
		} else {
			m.Token = 0
		}
		if t.until != 0 {
			m.Fixed, m.Left = true, max(t.left(now), 0)
		}
		found.Kind, found.Capacity = t.Kind, f.Capacity(t)
		found.Members = append(found.Members, m.Member)
	}
	if n := f.Permits(); n > 0 {
		found.Kind, found.Capacity, found.Resized = driver.Semaphore, n, !f.number.Unset
	}
	return found, nil
}

// member is a ticket, and whether its token is what the holder was told: then nothing is added.
type member struct {
	driver.Member
	told bool
}

// memberOf is what is known of a ticket. Another library's has no ID; its data, if
// it is text, is who it is.
func memberOf(t *ticket, c zk.Content) member {
	m, ours := decode(c.Data)
	if !ours && string(c.Data) != revocation { // which is in the place of what was there
		m.Owner = strings.ToValidUTF8(string(c.Data), "\uFFFD")
	}
	out := driver.Member{
		ID: t.ID, Owner: m.Owner, Note: m.Note, Units: t.Units, Token: joined(c),
		Since: time.UnixMilli(c.Stat.Ctime), Left: m.TTL, Foreign: !ours,
	}
	if m.Joined != 0 {
		out.Since = time.UnixMilli(m.Joined)
	}
	if m.Token != 0 {
		out.Token = m.Token
	}
	return member{out, m.Token != 0}
}

// perPage is how many queues List reads.
const perPage = 500

// List walks through the nodes. Those that this user may not read, and those with too many children, are left out
// with what is below: a member can make some.
func (s *store) List(ctx context.Context, prefix, from string) (queues []exchange.Snapshot, next string, err error) {
	err = s.with(ctx, func(ctx context.Context, l *link) error {
		if err := l.CatchUp(ctx, s.top()); err != nil {
			return err
		}
		var wrong error
		names, err := s.walk(ctx, l, s.top(), "", prefix, &wrong)
		if err != nil {
			return err
		}
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name <= from || driver.CheckName(name) != nil })
		if len(names) > perPage {
			names, next = names[:perPage], names[perPage-1]
		}
		for _, name := range names {
			q := s.queue(name)
			err := anew(func() error {
				f, err := s.readAll(ctx, l, q)
				if err != nil || len(f.Keys) == 0 {
					return err
				}
				found, err := s.members(ctx, l, q, f, false)
				if err == nil {
					queues = append(queues, exchange.Snapshot{Queue: found})
				}
				return err
			})
			if err != nil && !errors.Is(err, zk.ErrNoAuth) && wrong == nil {
				if wrong = err; !driver.IsPermanent(err) {
					return err
				}
			}
		}
		return wrong
	})
	return queues, next, err
}

// walk returns the names below a node that have tickets, and what is wrong with what it leaves out.
func (s *store) walk(ctx context.Context, l *link, path, name, prefix string, wrong *error) (names []string, err error) {
	c, err := l.List(ctx, path, false)
	if errors.Is(err, zk.ErrTooLong) && name != "" {
		*wrong = driver.Permanent(fmt.Errorf("%q: %w", name, s.Explain(err)))
		return nil, nil
	}
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) && name != "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tickets := false
	for _, node := range c.Names {
		if _, ok := parse(node); ok {
			tickets = true
			continue
		}
		if isNumber(node) || node == bell || name == "" && (node == reserved || path == "/" && node == "zookeeper") {
			continue
		}
		next := unescape(node)
		if name != "" {
			next = name + "/" + next
		}
		if !strings.HasPrefix(next, prefix) && !strings.HasPrefix(prefix, next+"/") {
			continue
		}
		more, err := s.walk(ctx, l, strings.TrimRight(path, "/")+"/"+node, next, prefix, wrong)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	if home, is := s.layouts.Home(name, c.Names, c.Stat); is {
		name, tickets = home, true
	}
	if tickets && name != "" && strings.HasPrefix(name, prefix) {
		names = append(names, name)
	}
	return names, nil
}
