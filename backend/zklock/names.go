package zklock

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/curator"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// A ticket's name says all that decides who holds, so that one list of names is
// enough:
//
//	_c_<UUID>-mutex-lock-<number>                  mutex
//	_c_<UUID>-election-lock-<number>               election
//	_c_<UUID>-permits3of8-lock-<number>            semaphore, unless another number was set: see permits.go
//	_c_<UUID>-member-lock-<number>                 double barrier
//	_c_<UUID>-__READ__<number>, -__WRIT__<number>  read-write lock
//
// with -until<milliseconds> after the UUID if it has a fixed end, by the clock of
// the server, and with -kept or -evicted if it was given that end. Curator sorts by
// what follows the last "lock-", or the word of a read-write lock, and does not look
// at the rest. Other words before the number: see layout.
type ticket struct {
	keys.Key
	node    string
	layout  layout
	until   int64 // 0: it has no fixed end
	kept    bool  // the holder of a ticket with a fixed end is done
	evicted bool  // the end of a ticket that had a fixed one was moved up
	wish    int64 // of the lock of a ticket in Curator's layout: for how many permits it waits

	aside bool     // it is in another layout
	more  []string // its nodes besides
	shown string   // what makes states differ
}

// lockOfLeases is the kind of a lock in Curator's layout of semaphores. It takes all, so that one is first.
const lockOfLeases driver.Kind = "lock of leases"

type line = keys.Line[*ticket]

// layout is by whose names new tickets go: the names of Curator's InterProcessMutex,
// LeaderSelector and InterProcessReadWriteLock, unless an option says otherwise.
// All names are read, whatever the layout: only what others respect differs.
//
//	kazoo: <UUID>-mutex-__lock__<number>, -election-__lock__<number>,
//	       -__rlock__<number> for readers and -write-__lock__<number> for writers
//	latch: <UUID>-election-latch-<number>, as Curator's LeaderLatch
//
// Kazoo looks at the word and the number only, so that the marks stay possible.
// It has nothing like our semaphores and double barriers, which keep their names.
type layout struct{ kazoo, latch bool }

// words are what comes before the number.
var words = []struct {
	text      string
	kind      driver.Kind // unless a mark says another
	exclusive bool
	layout    layout
}{
	{"lock-", driver.Mutex, true, layout{}},
	{"__READ__", driver.RWMutex, false, layout{}},
	{"__WRIT__", driver.RWMutex, true, layout{}},
	{"latch-", driver.Election, true, layout{latch: true}},
	{"__lock__", driver.Mutex, true, layout{kazoo: true}},
	{"__rlock__", driver.RWMutex, false, layout{kazoo: true}},
}

// checkShape refuses what a name cannot say: only permits have a number in it.
func (c *config) checkShape(j *exchange.Join) error {
	t := c.ticketOf(j)
	says, ok := parse(t.stem() + "0000000000")
	if !ok || says.Kind != t.Kind || says.Units != t.Units || says.Capacity != t.Capacity {
		return driver.Invalid(fmt.Errorf("zookeeper: no name of a ticket says %d units of %d of the kind %q", j.Units, j.Capacity, j.Kind))
	}
	return nil
}

// stem is the name of a ticket without its number.
func (t *ticket) stem() string {
	var b strings.Builder
	b.WriteString("_c_" + curator.UUID(t.ID) + "-")
	if t.until != 0 {
		fmt.Fprintf(&b, "until%d-", t.until)
	}
	if t.kept {
		b.WriteString("kept-")
	}
	if t.evicted {
		b.WriteString("evicted-")
	}
	lock := "lock-"
	if t.layout.kazoo {
		lock = "__lock__"
	}
	writer := t.Units == t.Capacity
	switch {
	case t.Kind == driver.RWMutex && writer && t.layout.kazoo:
		b.WriteString("write-" + lock)
	case t.Kind == driver.RWMutex && writer:
		b.WriteString("__WRIT__")
	case t.Kind == driver.RWMutex && t.layout.kazoo:
		b.WriteString("__rlock__")
	case t.Kind == driver.RWMutex:
		b.WriteString("__READ__")
	case t.Kind == driver.Mutex:
		b.WriteString("mutex-" + lock)
	case t.Kind == driver.Election && t.layout.latch:
		b.WriteString("election-latch-")
	case t.Kind == driver.Election:
		b.WriteString("election-" + lock)
	case t.Kind == driver.Barrier:
		b.WriteString("member-lock-")
	case t.Kind == lockOfLeases:
		fmt.Fprintf(&b, "leases%dof%d-lock-", t.wish, t.Capacity)
	default:
		fmt.Fprintf(&b, "permits%dof%d-lock-", t.Units, t.Capacity)
	}
	return b.String()
}

// numbered is the name that has the number of another.
func (t *ticket) numbered(node string) string {
	at := len(node) - 10
	if node[at-1] == '-' && number(t.Order) < 0 && len(fmt.Sprintf("%010d", number(t.Order))) > 10 {
		at--
	}
	return t.stem() + node[at:]
}

// Numbers have 32 bits, and go on with the smallest after the largest. An order is one more, so that it is not 0.
func order(number int32) int64 { return int64(uint32(number)) + 1 }

func number(order int64) int32 { return int32(uint32(order - 1)) }

// left is how long a ticket with a fixed end still stands. Names may say any end.
func (t *ticket) left(now int64) time.Duration {
	const longest = int64(math.MaxInt64 / time.Millisecond / 2)
	return time.Duration(min(t.until-now, longest)) * time.Millisecond
}

// parse reads the name of a ticket, of any library.
func parse(node string) (t *ticket, ok bool) {
	head, at, number := split(node)
	if at < 0 || isNumber(node) {
		return nil, false
	}
	word := words[at]
	t = &ticket{node: node, layout: word.layout, Key: keys.Key{Kind: word.kind, Units: 1, Capacity: 1, Order: order(number)}}
	if t.Kind == driver.RWMutex {
		t.Capacity = driver.RWCapacity
		if word.exclusive {
			t.Units = driver.RWCapacity
		}
	}
	head, ours := strings.CutPrefix(head, "_c_")
	t.ID, head = identity(head)
	t.Foreign = t.Kind != driver.RWMutex // it may be meant as a mutex or as an election
	if ours && t.ID != "" {
		for mark := range strings.SplitSeq(head, "-") {
			t.read(mark)
		}
	}
	if t.Foreign && t.Kind == driver.Mutex {
		t.Also = []driver.Kind{driver.Election, lockOfLeases}
		if t.layout.kazoo { // or as a writer
			t.Also = append(t.Also, driver.RWMutex)
		}
	}
	t.Stays = t.until != 0 // which only a grant gives
	return t, true
}

// read takes over what a part of a name says.
func (t *ticket) read(mark string) {
	is := func(kind driver.Kind, units, capacity int64) {
		t.Kind, t.Units, t.Capacity, t.Foreign = kind, units, capacity, false
	}
	permits, isPermits := strings.CutPrefix(mark, "permits")
	leases, isLeases := strings.CutPrefix(mark, "leases")
	until, isUntil := strings.CutPrefix(mark, "until")
	switch {
	case mark == "mutex":
		t.Foreign = false
	case mark == "election":
		t.Kind, t.Foreign = driver.Election, false
	case mark == "write":
		is(driver.RWMutex, driver.RWCapacity, driver.RWCapacity)
	case mark == "member":
		is(driver.Barrier, t.Units, driver.RWCapacity)
	case isPermits:
		if u, c, ok := unitsOf(permits); ok {
			is(driver.Semaphore, u, c)
		}
	case isLeases:
		if u, c, ok := unitsOf(leases); ok {
			is(lockOfLeases, c, c)
			t.wish = u
		}
	case mark == "kept":
		t.kept = true
	case mark == "evicted":
		t.evicted = true
	case isUntil:
		t.until, _ = strconv.ParseInt(until, 10, 64)
	}
}

// unitsOf reads 3of8.
func unitsOf(mark string) (units, capacity int64, ok bool) {
	u, c, _ := strings.Cut(mark, "of")
	units, err1 := strconv.ParseInt(u, 10, 64)
	capacity, err2 := strconv.ParseInt(c, 10, 64)
	return units, capacity, err1 == nil && err2 == nil && 1 <= units && units <= capacity
}

// split cuts a name before its word and before its number; -1: it has none.
func split(node string) (head string, word int, number int32) {
	for i, w := range words {
		if head, number, ok := curator.Split(node, w.text); ok {
			return head, i, number
		}
	}
	return "", -1, 0
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

// parseLine reads the children of a queue.
func parseLine(nodes []string) *line {
	l := &line{Whole: true}
	for _, node := range nodes {
		if t, ok := parse(node); ok {
			l.Keys = append(l.Keys, t)
		}
	}
	slices.SortFunc(l.Keys, func(a, b *ticket) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.node, b.node))
	})
	return l
}
