package curator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// The nodes of a semaphore, below its name:
//
//	locks/_c_<UUID>-leases3of8-lock-<number>  a ticket that waits: a line, as that of a mutex
//	leases/_c_<UUID>-of8-lease-<number>       one permit of a ticket
//
// A ticket of Curator does not say how many permits there are, and has another UUID in locks than in leases. To Curator
// each child of leases is a permit, whatever its name.
const (
	Locks  = "/locks"
	leases = "/leases"

	LeasesFolder = leases
)

// Lock is a ticket in locks.
type Lock struct {
	Node, ID     string
	Units, Limit int64 // what it asks for, of how many; 0: it does not say that
}

// lease is a node in leases.
type lease struct {
	node, id string
	number   int32
	limit    int64 // how many permits there are, as it says; 0: it does not
}

func stem(id string, limit int64) string { return fmt.Sprintf("_c_%s-of%d-lease-", UUID(id), limit) }

func parse(node string) lease {
	head, number, _ := Split(node, "lease-")
	n := lease{node: node, number: number}
	if head, ours := strings.CutPrefix(head, "_c_"); ours && len(head) >= 36 {
		if id, ok := idOf(head[:36]); ok {
			n.id = id
			if of, ok := strings.CutPrefix(strings.TrimSuffix(head[36:], "-"), "-of"); ok {
				n.limit, _ = strconv.ParseInt(of, 10, 64)
			}
		}
	}
	return n
}

// Split cuts the name of a sequential node before a word and the number behind it, which has ten places, or eleven with
// the sign of a large negative one.
func Split(node, word string) (head string, number int32, ok bool) {
	for _, at := range []int{len(node) - 10, len(node) - 11} {
		if at < 1 || node[at] == '+' {
			continue
		}
		if n, err := strconv.ParseInt(node[at:], 10, 32); err == nil {
			if head, ok := strings.CutSuffix(node[:at], word); ok {
				return head, int32(n), true
			}
		}
	}
	return "", 0, false
}

// UUID is an ID as one.
func UUID(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// idOf is the ID that a UUID stands for, which is the name of a member of a double barrier.
func idOf(uuid string) (id string, ok bool) {
	if len(uuid) != 36 {
		return "", false
	}
	id = strings.ReplaceAll(strings.ToLower(uuid), "-", "")
	return id, driver.CheckID(id) == nil
}

// lent are the leases of a semaphore, in the order in which they were made.
type lent []lease

func lentIn(nodes []string) lent {
	all := make(lent, 0, len(nodes))
	for _, node := range nodes {
		all = append(all, parse(node))
	}
	slices.SortStableFunc(all, func(a, b lease) int { return cmp.Compare(uint32(a.number), uint32(b.number)) })
	return all
}

// of are the nodes of a ticket.
func (all lent) of(id string) (nodes []string) {
	for _, n := range all {
		if n.id == id {
			nodes = append(nodes, n.node)
		}
	}
	return nodes
}

// limit is how many permits there are, as the first lease says: tickets that say something else are refused because of
// it.
func (all lent) limit() (of lease, says bool) {
	at := slices.IndexFunc(all, func(n lease) bool { return n.limit > 0 })
	if at < 0 {
		return lease{}, false
	}
	return all[at], true
}

// verdict is what becomes of a ticket that has made its leases.
type verdict uint8

const (
	gone    verdict = iota // a lease was taken away
	refused                // another number of permits is there
	full                   // waits until leases are given back
	holds
)

func (all lent) judge(mine []string, limit int64) verdict {
	first, says := all.limit()
	switch {
	case slices.ContainsFunc(mine, func(node string) bool { return !all.has(node) }):
		return gone
	case says && first.limit != limit:
		return refused
	case int64(len(all)) > limit:
		return full
	}
	return holds
}

func (all lent) has(node string) bool {
	return slices.ContainsFunc(all, func(n lease) bool { return n.node == node })
}

// The data of leases: the number of the last lease of the last ticket that had the whole semaphore and left cleanly, or
// this, from when such a ticket holds.
const unclean = -1

func mark(number int32) []byte { return strconv.AppendInt([]byte{'R'}, int64(number), 10) }

func marked(data []byte) (number int32, ok bool) {
	rest, ours := strings.CutPrefix(string(data), "R")
	n, err := strconv.ParseInt(rest, 10, 32)
	return int32(n), ours && err == nil
}

// inherits says whether the last one who had the whole semaphore has not left cleanly. Where there is one permit all
// have had it, also tickets of Curator, which leave no mark.
func (all lent) inherits(data []byte, limit int64) bool {
	last, ok := marked(data)
	switch {
	case !ok && len(data) > 0, ok && last == unclean:
		return true
	case limit > 1:
		return false
	case !ok:
		last = -1
	}
	return all[0].number != last+1
}

// Seen is a ticket as others see it. Its nodes are named from the queue on.
type Seen struct {
	keys.Key
	Node  string
	More  []string
	Shown string // what makes states differ: not on which of its ways from locks to leases it is; "": the node
}

// line is a semaphore as one line: first the tickets that have leases, in the order in which these were made, then the
// others.
func line(waiters []Lock, all lent) (line []*Seen) {
	total := int64(len(all))
	first, _ := all.limit()
	limit := first.limit
	for _, n := range waiters {
		limit = cmp.Or(limit, n.Limit)
	}
	var last []string // the lock of the last lease
	// The lease of a ticket of Curator that is first in locks is the last one, and one too many if that is known.
	if len(waiters) > 0 && waiters[0].Limit == 0 && total > 0 && all[total-1].limit == 0 && (limit == 0 || total > limit) {
		last, waiters = []string{Locks[1:] + "/" + waiters[0].Node}, waiters[1:]
	}
	if limit == 0 { // no ticket says it: there are as many as are held
		limit = max(total-int64(len(last)), 1)
	}
	of := map[string]*Seen{}
	add := func(path, id string, units, more int64, ours bool) {
		if t := of[id]; t != nil && ours {
			t.Units, t.More = t.Units+more, append(t.More, path)
			return
		}
		t := &Seen{Node: path, Key: keys.Key{ID: id, Kind: driver.Semaphore, Units: units, Capacity: limit}}
		if line = append(line, t); ours {
			of[id] = t
		}
	}
	for _, n := range all {
		add(leases[1:]+"/"+n.node, n.id, 1, 1, n.limit > 0)
	}
	if last != nil {
		line[len(line)-1].More = last
	}
	for _, n := range waiters {
		add(Locks[1:]+"/"+n.Node, n.ID, max(n.Units, 1), 0, n.Limit > 0)
	}
	for _, t := range of {
		t.Shown = fmt.Sprint(t.ID, " ", t.Units)
	}
	return line
}
