package curator

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

type name struct {
	node            string
	id              string // 32 hexadecimal digits; "" if it has none
	layout          layout
	number          int32
	kind            driver.Kind
	units, capacity int64
	wants, limit    int64  // of a semaphore in Curator's layout, where the ticket stands alone; see leases.go
	foreign         bool   // of Curator, in that layout: how many there may be it does not say
	more            string // its other nodes, each with a space in front
	plain           bool   // of another library, which may mean it as a mutex or as an election
	until           int64  // 0: it has no fixed end
	kept            bool   // the holder of a ticket with a fixed end is done
	evicted         bool   // the end of a ticket that had a fixed one was moved up

	said     int64  // the capacity that the node's name says; another one may be in force
	setting  string // the node of the queue's setting, "" if there is none
	stays    bool   // it is held, whether or not it fits
	unsure   bool   // it may be held though it does not fit
	intrudes bool   // it is to be refused because of the setting
	late     bool   // it came after the setting
}

func (n *name) exclusive() bool { return n.units >= n.capacity }

func (n *name) takes(capacity int64) int64 {
	if n.plain && n.exclusive() {
		return capacity
	}
	return n.units
}

func (n *name) permits() bool { return n.kind == driver.Semaphore && !n.plain }

func (n *name) marks() (marks []string) {
	if n.until != 0 {
		marks = append(marks, "until"+strconv.FormatInt(n.until, 10))
	}
	if n.kept {
		marks = append(marks, "kept")
	}
	if n.evicted {
		marks = append(marks, "evicted")
	}
	return marks
}

func (n *name) left(now int64) time.Duration {
	const longest = int64(math.MaxInt64 / time.Millisecond / 2)
	return time.Duration(min(n.until-now, longest)) * time.Millisecond
}

func before(a, b int32) bool { return a-b < 0 }

func uuid(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

func parse(node string) (n name, ok bool) {
	head, word, number, ok := split(node)
	if !ok || isSetting(node) {
		return n, false
	}
	defer func() { n.said = n.capacity }()
	n = name{node: node, number: number, kind: word.kind, units: 1, capacity: 1, layout: word.layout}
	if n.kind == driver.RWMutex {
		n.capacity = driver.RWCapacity
		if word.exclusive {
			n.units = driver.RWCapacity
		}
	}
	head, ours := strings.CutPrefix(head, "_c_")
	n.id, head = identity(head)
	n.plain = n.kind != driver.RWMutex
	if !ours || n.id == "" {
		return n, true // of another library
	}
	for mark := range strings.SplitSeq(head, "-") {
		switch {
		case mark == "mutex":
			n.plain = false
		case mark == "election":
			n.kind, n.plain = driver.Election, false
		case mark == "write":
			n.kind, n.units, n.capacity, n.plain = driver.RWMutex, driver.RWCapacity, driver.RWCapacity, false
		case mark == "member":
			n.kind, n.capacity, n.plain = driver.Barrier, driver.RWCapacity, false
		case strings.HasPrefix(mark, "permits"):
			units, capacity, _ := strings.Cut(mark[len("permits"):], "of")
			u, err1 := strconv.ParseInt(units, 10, 64)
			c, err2 := strconv.ParseInt(capacity, 10, 64)
			if err1 == nil && err2 == nil && 1 <= u && u <= c {
				n.kind, n.units, n.capacity, n.plain = driver.Semaphore, u, c, false
			}
		case strings.HasPrefix(mark, "leases"):
			units, limit, _ := strings.Cut(mark[len("leases"):], "of")
			u, err1 := strconv.ParseInt(units, 10, 64)
			c, err2 := strconv.ParseInt(limit, 10, 64)
			if err1 == nil && err2 == nil {
				n.kind, n.wants, n.limit, n.plain, n.layout.leases = driver.Semaphore, u, c, false, true
			}
		case mark == "kept":
			n.kept = true
		case mark == "evicted":
			n.evicted = true
		case strings.HasPrefix(mark, "until"):
			n.until, _ = strconv.ParseInt(mark[len("until"):], 10, 64)
		}
	}
	return n, true
}

func split(node string) (head string, w word, number int32, ok bool) {
	for _, at := range []int{len(node) - 10, len(node) - 11} {
		if at < 1 {
			break
		}
		n, err := strconv.ParseInt(node[at:], 10, 32)
		if err != nil || node[at] == '+' {
			continue
		}
		for _, w := range words {
			if head, ok := strings.CutSuffix(node[:at], w.text); ok {
				return head, w, int32(n), true
			}
		}
	}
	return "", w, 0, false
}

func identity(head string) (id, rest string) {
	for _, n := range []int{36, 32} {
		if len(head) < n {
			continue
		}
		id := head[:n]
		if n == 36 {
			id = strings.ReplaceAll(id, "-", "")
		}
		if driver.CheckID(id) == nil {
			return id, strings.TrimPrefix(head[n:], "-")
		}
	}
	return "", head
}

type line []name

func parseAll(nodes []string) line {
	all, _ := parseQueue(nodes)
	return all
}

func parseTickets(nodes []string) line {
	type key struct {
		number int32
		at     int
	}
	names := make(line, 0, len(nodes))
	keys := make([]key, 0, len(nodes))
	for _, node := range nodes {
		if n, ok := parse(node); ok {
			keys = append(keys, key{n.number, len(names)})
			names = append(names, n)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.number != b.number {
			return cmp.Compare(a.number-b.number, 0)
		}
		return cmp.Compare(names[a.at].node, names[b.at].node)
	})
	all := make(line, len(keys))
	for i, k := range keys {
		all[i] = names[k.at]
	}
	return all
}

func (l line) place(id string) (int, bool) {
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].id == id {
			return i, true
		}
	}
	return -1, false
}

func (l line) holds(i int) bool {
	if l[i].stays {
		return true
	}
	var sum int64
	for _, n := range l[:i+1] {
		sum = add(sum, n.takes(l[i].capacity))
		if sum > l[i].capacity {
			return false
		}
	}
	return true
}

type view struct {
	obstacles []obstacle // one of them has to leave before the ticket can be held
	next      name       // the ticket in front of an only obstacle, if both are exclusive
	ends      bool       // an obstacle has a fixed end
	permits   string     // the node that changes if the number of permits does; "" for other kinds
	set       bool       // that node stands
}

type obstacle struct {
	name
	enough bool // the ticket is held once this one has left
}

func (l line) view(i int) *view {
	var all, sum int64
	capacity := l[i].capacity
	for j := range l[:i+1] { // they are large, and thousands of tickets do this
		all = add(all, l[j].takes(capacity))
	}
	free := capacity - l[i].units
	v := &view{set: l[i].setting != ""}
	if l[i].kind == driver.Semaphore && l[i].limit == 0 {
		v.permits = cmp.Or(l[i].setting, bell)
	}
	for j := i - 1; j >= 0 && sum <= free; j-- {
		n := l[j]
		takes := n.takes(capacity)
		sum = add(sum, takes)
		v.obstacles = append(v.obstacles, obstacle{n, all < math.MaxInt64 && all-takes <= capacity})
	}
	v.obstacles = slices.DeleteFunc(v.obstacles, func(o obstacle) bool {
		if takes := o.takes(capacity); sum-takes > free {
			sum -= takes
			return true
		}
		return false
	})
	for _, o := range v.obstacles {
		v.ends = v.ends || o.until != 0
	}
	if len(v.obstacles) == 1 && i >= 2 && l[i].exclusive() && l[i-1].exclusive() && l[i-2].exclusive() {
		v.next = l[i-2]
	}
	return v
}

func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func (l line) numbered(number int32) bool {
	return slices.ContainsFunc(l, func(n name) bool { return n.number == number })
}

func (l line) exclusiveBefore(i int) (name, bool) {
	for j := i - 1; j >= 0; j-- {
		if l[j].exclusive() {
			return l[j], true
		}
	}
	return name{}, false
}

func (l line) same() bool {
	for i := range l {
		n, first := &l[i], &l[0]
		if n.plain || n.foreign || n.intrudes || n.kind != first.kind || n.capacity != first.capacity || n.limit != first.limit {
			return false
		}
	}
	return true
}

func (n *name) suits(t *name) bool {
	same := n.kind == t.kind && (n.foreign || n.capacity == t.capacity && n.limit == t.limit)
	meant := n.plain && n.kind == driver.Mutex &&
		(t.kind == driver.Election || t.kind == driver.RWMutex && n.layout.kazoo || t.limit != 0)
	return same || meant
}

func (l line) other(i int) (at int, ok bool) {
	for j := range l[:i] {
		if !l[j].suits(&l[i]) {
			return j, true
		}
	}
	return 0, false
}

func (l line) intruder(i int) (because name, ok bool) {
	if l[i].plain || l[i].foreign {
		return name{}, false
	}
	if l[i].intrudes {
		return name{node: l[i].setting}, true
	}
	j, ok := l.other(i)
	if !ok {
		return name{}, false
	}
	return l[j], true
}
