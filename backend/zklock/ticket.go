package zklock

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A ticket's name says all that decides who holds, so that one list of names is
// enough:
//
//	_c_<UUID>-mutex-lock-<number>                  mutex
//	_c_<UUID>-election-lock-<number>               election
//	_c_<UUID>-permits3of8-lock-<number>            semaphore, unless another number was set: see setting.go
//	_c_<UUID>-member-lock-<number>                 double barrier
//	_c_<UUID>-__READ__<number>, -__WRIT__<number>  read-write lock
//
// with -until<milliseconds> after the UUID if it has a fixed end, by the clock of
// the server, and with -kept or -evicted if it was given that end. Curator sorts by
// what follows the last "lock-", or the word of a read-write lock, and does not look
// at the rest. Other words before the number: see layout.
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

// exclusive reports whether the ticket asks for all there is; for more, if the number of permits was lowered.
func (n *name) exclusive() bool { return n.units >= n.capacity }

// takes is how much of a capacity the ticket takes. A lock of another library
// takes all of it, for its name does not say how much that is.
func (n *name) takes(capacity int64) int64 {
	if n.plain && n.exclusive() {
		return capacity
	}
	return n.units
}

// permits reports whether the ticket is one of a semaphore.
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

// left is how long a ticket with a fixed end still stands. Names may say any end.
func (n *name) left(now int64) time.Duration {
	const longest = int64(math.MaxInt64 / time.Millisecond / 2)
	return time.Duration(min(n.until-now, longest)) * time.Millisecond
}

// before orders numbers, which wrap around.
func before(a, b int32) bool { return a-b < 0 }

func uuid(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// parse reads the name of a ticket, whoever has made it.
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

// split cuts a name before its word and before its number, which has ten places,
// or eleven with the sign of a large negative one.
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

// identity reads the UUID that a name begins with, which some write without dashes.
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

// line is the tickets of a queue, in their order.
type line []name

// parseAll reads the tickets of a queue, whose setting is among its children.
func parseAll(nodes []string) line {
	all, _ := parseQueue(nodes)
	return all
}

// parseTickets reads them without a setting.
func parseTickets(nodes []string) line {
	// There may be thousands, and they are large: only their numbers are moved.
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

// place returns where the ticket stands. Those who ask stand at the end, mostly.
func (l line) place(id string) (int, bool) {
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].id == id {
			return i, true
		}
	}
	return -1, false
}

// holds reports whether the ticket at i is held.
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

// A view is what a ticket that waits keeps of the line in front of it.
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

// view returns what the ticket at i, which is not held, has to watch: the
// nearest tickets whose units together are too many, without those that do not
// matter. So the ticket is held once one of them and all before that one have left.
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

// add adds units, of which other libraries' names may claim any number.
func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// numbered reports whether a ticket of this number stands.
func (l line) numbered(number int32) bool {
	return slices.ContainsFunc(l, func(n name) bool { return n.number == number })
}

// exclusiveBefore returns the nearest exclusive ticket in front of i.
func (l line) exclusiveBefore(i int) (name, bool) {
	for j := i - 1; j >= 0; j-- {
		if l[j].exclusive() {
			return l[j], true
		}
	}
	return name{}, false
}

// same reports whether no ticket is another one for those behind it. Thousands look at one list.
func (l line) same() bool {
	for i := range l {
		n, first := &l[i], &l[0]
		if n.plain || n.foreign || n.intrudes || n.kind != first.kind || n.capacity != first.capacity || n.limit != first.limit {
			return false
		}
	}
	return true
}

// suits reports whether n, in front of t, is of the same kind and capacity. What another
// library calls a lock may be meant as an election, and kazoo's as a writer.
func (n *name) suits(t *name) bool {
	same := n.kind == t.kind && (n.foreign || n.capacity == t.capacity && n.limit == t.limit)
	meant := n.plain && n.kind == driver.Mutex &&
		(t.kind == driver.Election || t.kind == driver.RWMutex && n.layout.kazoo || t.limit != 0)
	return same || meant
}

// other returns where the first ticket in front of i stands that is of another kind or
// capacity.
func (l line) other(i int) (at int, ok bool) {
	for j := range l[:i] {
		if !l[j].suits(&l[i]) {
			return j, true
		}
	}
	return 0, false
}

// intruder reports whether the ticket at i is to be refused, because of which one in front of it.
// It may not know yet. One of another library never will.
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
