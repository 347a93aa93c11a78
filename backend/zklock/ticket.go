package zklock

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// A ticket's name says all that decides who holds, so that one list of names is
// enough:
//
//	_c_<UUID>-lock-<number>                        mutex
//	_c_<UUID>-election-lock-<number>               election
//	_c_<UUID>-permits3of8-lock-<number>            semaphore
//	_c_<UUID>-member-lock-<number>                 double barrier
//	_c_<UUID>-__READ__<number>, -__WRIT__<number>  read-write lock
//
// with -until<milliseconds> after the UUID if it has a fixed end, by the clock of
// the server, and with -kept or -evicted if it was given that end. Curator sorts by what follows the last "lock-", or the
// word of a read-write lock, and does not look at the rest.
type name struct {
	node            string
	id              string // 32 hexadecimal digits; "" if it is not a UUID
	number          int32
	kind            driver.Kind
	units, capacity int64
	until           int64 // 0: it has no fixed end
	kept            bool  // the holder of a ticket with a fixed end is done
	evicted         bool  // the end of a ticket that had a fixed one was moved up
}

func (n *name) exclusive() bool { return n.units == n.capacity }

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

// before orders numbers, which wrap around.
func before(a, b int32) bool { return a-b < 0 }

func uuid(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// stem is the name of a ticket but for its number.
func stem(id string, kind driver.Kind, units, capacity int64, marks ...string) string {
	var b strings.Builder
	b.WriteString("_c_" + uuid(id) + "-")
	for _, m := range marks {
		b.WriteString(m + "-")
	}
	switch {
	case kind == driver.RWMutex && units == capacity:
		b.WriteString("__WRIT__")
	case kind == driver.RWMutex:
		b.WriteString("__READ__")
	case kind == driver.Mutex:
		b.WriteString("lock-")
	case kind == driver.Election:
		b.WriteString("election-lock-")
	case kind == driver.Barrier:
		b.WriteString("member-lock-")
	default:
		fmt.Fprintf(&b, "permits%dof%d-lock-", units, capacity)
	}
	return b.String()
}

// parse reads the name of a ticket, whoever has made it.
func parse(node string) (n name, ok bool) {
	at := len(node) - 10
	if at < 1 {
		return n, false
	}
	if node[at-1] == '-' && at > 1 && !strings.HasSuffix(node[:at], "lock-") {
		at--
	}
	number, err := strconv.ParseInt(node[at:], 10, 32)
	if err != nil {
		return n, false
	}
	head := node[:at]
	n = name{node: node, number: int32(number), units: 1, capacity: 1}
	switch {
	case strings.HasSuffix(head, "lock-"):
		n.kind, head = driver.Mutex, strings.TrimSuffix(head, "lock-")
	case strings.HasSuffix(head, "__READ__"):
		n.kind, n.capacity, head = driver.RWMutex, driver.RWCapacity, strings.TrimSuffix(head, "__READ__")
	case strings.HasSuffix(head, "__WRIT__"):
		n.kind, n.units, n.capacity = driver.RWMutex, driver.RWCapacity, driver.RWCapacity
		head = strings.TrimSuffix(head, "__WRIT__")
	default:
		return n, false
	}
	rest, protected := strings.CutPrefix(head, "_c_")
	if !protected {
		return n, true // of another library
	}
	if len(rest) < 37 {
		return n, true
	}
	if id := strings.ReplaceAll(rest[:36], "-", ""); len(id) == 32 {
		n.id = id
	}
	for mark := range strings.SplitSeq(rest[37:], "-") {
		switch {
		case mark == "election":
			n.kind = driver.Election
		case mark == "member":
			n.kind, n.capacity = driver.Barrier, driver.RWCapacity
		case strings.HasPrefix(mark, "permits"):
			units, capacity, _ := strings.Cut(mark[len("permits"):], "of")
			u, err1 := strconv.ParseInt(units, 10, 64)
			c, err2 := strconv.ParseInt(capacity, 10, 64)
			if err1 == nil && err2 == nil {
				n.kind, n.units, n.capacity = driver.Semaphore, u, c
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

// line is the tickets of a queue, in their order.
type line []name

func parseAll(nodes []string) line {
	var all line
	for _, node := range nodes {
		if n, ok := parse(node); ok {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.number-b.number, 0), cmp.Compare(a.node, b.node))
	})
	return all
}

// place returns where the ticket stands.
func (l line) place(id string) (int, bool) {
	i := slices.IndexFunc(l, func(n name) bool { return n.id == id })
	return i, i >= 0
}

// holds reports whether the ticket at i is held.
func (l line) holds(i int) bool {
	var sum int64
	for _, n := range l[:i+1] {
		sum = add(sum, n.units)
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
}

type obstacle struct {
	name
	enough bool // the ticket is held once this one has left
	fits   bool // the ticket is held once this one and all before it have left
}

// view returns what the ticket at i, which is not held, has to watch: the
// nearest tickets whose units together are too many, without those that do not
// matter.
func (l line) view(i int) *view {
	var all, sum int64
	for _, n := range l[:i+1] {
		all = add(all, n.units)
	}
	capacity := l[i].capacity
	free := capacity - l[i].units
	after := l[i].units
	v := &view{}
	for j := i - 1; j >= 0 && sum <= free; j-- {
		n := l[j]
		sum = add(sum, n.units)
		v.obstacles = append(v.obstacles, obstacle{n, all < math.MaxInt64 && all-n.units <= capacity, after <= capacity})
		after = add(after, n.units)
	}
	v.obstacles = slices.DeleteFunc(v.obstacles, func(o obstacle) bool {
		if sum-o.units > free {
			sum -= o.units
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

// exclusiveBefore returns the nearest exclusive ticket in front of i.
func (l line) exclusiveBefore(i int) (name, bool) {
	for j := i - 1; j >= 0; j-- {
		if l[j].exclusive() {
			return l[j], true
		}
	}
	return name{}, false
}

// other returns a ticket in front of i of another kind or capacity. A mutex of
// another library may be meant as an election.
func (l line) other(i int) (name, bool) {
	for _, n := range l[:i] {
		same := n.kind == l[i].kind && n.capacity == l[i].capacity
		if !same && !(n.kind == driver.Mutex && l[i].kind == driver.Election && n.foreign()) {
			return n, true
		}
	}
	return name{}, false
}

// foreign can only be said of names that we would not make.
func (n *name) foreign() bool { return n.id == "" }
