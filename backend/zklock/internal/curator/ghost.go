package curator

import (
	"context"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// A ghost is the node of a ticket that has left. Servers with the faults that Check warns
// of bring such nodes back after leaders have crashed: they would stand as long as the session
// of their client, and all others wait behind them. So whoever meets one of its own
// removes it again:
//
//   - a session that finds a ticket which it has left in front of one that waits;
//   - each session asks the server once in a TTL which nodes it has (getEphemerals, in
//     ZooKeeper 3.6 and later), and removes those of tickets that it does not know.
//
// A ticket is known before its node is made, and until that is removed.

// knows reports whether a ticket is one of this session.
func (s *session) knows(id string) bool { return s.place(id) != nil }

// haunted removes tickets that this session has left, and that stand in front of one that
// waits; s.mu is held.
func (s *session) haunted(q *lane, front []obstacle) {
	for _, o := range front {
		if o.id == "" || !s.left.Has(o.id) {
			continue
		}
		path := q.path + "/" + o.node
		s.d.background(func(ctx context.Context) {
			// Others can be asked to leave, too, and say no.
			c, err := s.l.Get(ctx, path)
			if err == nil && c.Stat.EphemeralOwner == s.zk && !s.l.Knows(o.id) {
				_ = s.l.Remove(ctx, path)
			}
		})
	}
}

// visit removes ghosts, once in a TTL.
func (s *session) visit(ctx context.Context) {
	now := s.d.Now()
	if now.Sub(s.visited) < s.ttl || now.Sub(driver.Instant(s.renewed.Load())) > s.ttl {
		return
	}
	s.visited = now
	ctx, cancel := context.WithTimeout(ctx, s.ttl/4)
	defer cancel()
	paths, err := s.l.Ephemerals(ctx, s.d.root)
	if err != nil {
		return
	}
	for _, path := range paths {
		if id := s.ticketAt(path); id != "" && !s.l.Knows(id) {
			_ = s.l.Remove(ctx, path)
		}
	}
}

// ticketAt returns the ID of a ticket of ours whose node this is, "" if there is none. A
// program's own session may have nodes of other libraries.
func (s *session) ticketAt(path string) string {
	below, ok := strings.CutPrefix(path, s.d.root+"/")
	if !ok {
		return ""
	}
	node := below[strings.LastIndexByte(below, '/')+1:]
	n, ok := parse(node)
	if !ok {
		n = parseLease(node)
		n.plain = n.limit == 0
	}
	if n.plain || !strings.HasPrefix(node, "_c_") || !s.l.Own && n.kind == driver.RWMutex {
		return ""
	}
	return n.id
}
