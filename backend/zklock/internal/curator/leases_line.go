package curator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// parseLease reads the name of a lease. Whatever its name, it is a unit.
func parseLease(node string) name {
	n := name{node: node, kind: driver.Semaphore, units: 1, layout: layout{leases: true}}
	head := node
	for _, at := range []int{len(node) - 10, len(node) - 11} {
		if at < 1 {
			break
		}
		if number, err := strconv.ParseInt(node[at:], 10, 32); err == nil && node[at] != '+' {
			n.number, head = int32(number), node[:at]
			break
		}
	}
	head, protected := strings.CutPrefix(head, "_c_")
	if protected {
		n.id, head = identity(head)
	}
	if of, ok := strings.CutPrefix(strings.TrimSuffix(head, "-lease-"), "of"); ok && n.id != "" {
		n.limit, _ = strconv.ParseInt(of, 10, 64)
	}
	return n
}

// leases lists the leases of a semaphore, in the order in which they were made.
func (l *link) leases(ctx context.Context, q *lane, watch bool) (line, error) {
	c, err := l.List(ctx, q.leases.path, watch)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	all := make(line, 0, len(c.Names))
	for _, node := range c.Names {
		all = append(all, parseLease(node))
	}
	all.sort()
	return all, nil
}

func (l line) sort() {
	slices.SortStableFunc(l, func(a, b name) int { return cmp.Compare(a.number-b.number, 0) })
}

// of returns the nodes of a ticket.
func (l line) of(id string) (nodes []string) {
	for _, n := range l {
		if n.id == id {
			nodes = append(nodes, n.node)
		}
	}
	return nodes
}

// have reports whether all nodes are there.
func (l line) have(nodes []string) bool {
	there := make(map[string]bool, len(l))
	for _, n := range l {
		there[n.node] = true
	}
	for _, node := range nodes {
		if !there[node] {
			return false
		}
	}
	return len(nodes) > 0
}

// otherLimit returns the first lease of ours, if its semaphore has another size: later ones are
// refused because of it.
func (l line) otherLimit(limit int64) (name, bool) {
	for _, n := range l {
		if n.limit != 0 {
			return n, n.limit != limit
		}
	}
	return name{}, false
}

// tickets lists a queue. It returns zk.ErrNoNode if there is none.
func (d *Driver) tickets(ctx context.Context, l *link, q *lane, watch bool) (line, setting, error) {
	c, err := l.List(ctx, q.path, watch)
	if err != nil {
		return nil, setting{}, err
	}
	all, set := parseQueue(c.Names)
	if d.names.barriers {
		members, err := d.attendees(ctx, l, q, c.Names)
		if err != nil {
			return nil, set, err
		}
		all = append(all, members...)
	}
	if !d.names.leases {
		return all, set, nil
	}
	lent, err := d.semaphore(ctx, l, q, watch)
	return append(all, lent...), set, err
}

// semaphore lists the tickets of a semaphore as one line: first those that have
// leases, in the order in which these were made, then the others in that of locks.
// Locks are read first: who has gone from there is found in leases.
func (d *Driver) semaphore(ctx context.Context, l *link, base *lane, watch bool) (line, error) {
	q := d.laneOf(base.name, driver.Semaphore)
	c, err := l.List(ctx, q.path, watch)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	locks := parseAll(c.Names)
	leases, err := l.leases(ctx, q, watch)
	if err != nil {
		return nil, err
	}
	return merge(locks, leases), nil
}

func merge(locks, leases line) line {
	total := int64(len(leases))
	var limit int64
	for _, n := range append(append(line{}, leases...), locks...) {
		if n.limit != 0 {
			limit = n.limit
			break
		}
	}
	// A ticket of Curator has another UUID in locks than in leases. Its lease is the
	// last, and one too many if the limit is known.
	if len(locks) > 0 && locks[0].limit == 0 && total > 0 && leases[total-1].limit == 0 && (limit == 0 || total > limit) {
		leases[total-1].more += " locks/" + locks[0].node
		locks = locks[1:]
		if limit == 0 {
			limit = max(total-1, 1)
		}
	}
	if limit == 0 { // nobody says it
		limit = max(total, 1)
	}
	var all line
	at := map[string]int{}
	for _, n := range leases {
		i, again := at[n.id]
		if again && n.limit != 0 {
			all[i].units++
			all[i].more += " leases/" + n.node
			continue
		}
		if n.limit != 0 {
			at[n.id] = len(all)
		} else {
			n.foreign = true
		}
		n.node = "leases/" + n.node
		n.capacity = limit
		all = append(all, n)
	}
	for _, n := range locks {
		node := "locks/" + n.node
		if i, again := at[n.id]; again && n.id != "" {
			all[i].more += " " + node
			continue
		}
		all = append(all, name{
			node: node, id: n.id, number: n.number, kind: driver.Semaphore, layout: layout{leases: true},
			units: max(n.wants, 1), capacity: limit, limit: n.limit, foreign: n.limit == 0,
		})
	}
	return all
}

// folders are where tickets of a queue stand.
func (d *Driver) folders(q *lane) []string {
	if !d.names.leases {
		return []string{q.path}
	}
	return []string{q.path, q.path + "/locks", q.path + "/leases"}
}

// ticket reads the node of a ticket, which may have moved from locks to leases.
func (l *link) ticket(ctx context.Context, q *lane, n *name) (content, error) {
	c, err := l.Get(ctx, q.path+"/"+n.node)
	if !errors.Is(err, zk.ErrNoNode) || !strings.HasPrefix(n.node, "locks/") || n.id == "" {
		return c, err
	}
	folder := &lane{path: q.path + "/leases"}
	all, err := l.leases(ctx, &lane{leases: folder}, false)
	if err != nil {
		return content{}, err
	}
	for _, node := range all.of(n.id) {
		return l.Get(ctx, folder.path+"/"+node)
	}
	return content{}, zk.ErrNoNode
}

// shown is what of a ticket makes states of a queue differ: not on which of its
// ways from locks to leases it is.
func (n *name) shown() string {
	if !n.layout.leases || n.foreign {
		return n.node
	}
	return fmt.Sprint(n.id, " ", n.units)
}

// semaphoreOf returns the name of the semaphore that a folder of tickets or leases
// belongs to.
func (d *Driver) semaphoreOf(folder string, nodes []string) (string, bool) {
	if !d.names.leases || len(nodes) == 0 {
		return "", false
	}
	if name, ok := strings.CutSuffix(folder, "/leases"); ok {
		return name, slices.ContainsFunc(nodes, func(n string) bool { return strings.Contains(n, "lease-") })
	}
	name, ok := strings.CutSuffix(folder, "/locks")
	return name, ok && len(parseAll(nodes)) > 0
}

// lent reports whether a queue's children tell that it may be a semaphore or a double
// barrier in Curator's layout.
func (d *Driver) lent(nodes []string) bool {
	return d.names.leases && (slices.Contains(nodes, "locks") || slices.Contains(nodes, "leases")) ||
		d.names.barriers && slices.ContainsFunc(nodes, func(n string) bool { _, ok := memberID(n); return ok })
}

// lentAt finds a ticket in one of these layouts where one of another kind is to be.
func (d *Driver) lentAt(ctx context.Context, l *link, q *lane) (name, bool, error) {
	if q.leases != nil {
		return name{}, false, nil // it is the folder of one
	}
	all, _, err := d.tickets(ctx, l, q, false)
	for _, n := range all {
		if _, meets := memberID(n.node); meets || n.layout.leases {
			return n, true, nil
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return name{}, false, err
}

// crowd is the folder whose children tell whether somebody waits.
func (q *lane) crowd() string {
	if q.leases != nil {
		return q.leases.path
	}
	return q.path
}

// nodes are all nodes of the ticket.
func (n *name) nodes() []string {
	return append([]string{n.node}, strings.Fields(n.more)...)
}
