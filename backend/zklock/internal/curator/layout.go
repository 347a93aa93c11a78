package curator

import (
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// layout is by whose names new tickets go: those of Curator's InterProcessMutex,
// LeaderSelector and InterProcessReadWriteLock, unless an option says otherwise.
// All names are read, whatever the layout: only what others respect differs.
//
//	kazoo: <UUID>-mutex-__lock__<number>, -election-__lock__<number>,
//	       -__rlock__<number> for readers and -write-__lock__<number> for writers
//	latch: <UUID>-election-latch-<number>, as Curator's LeaderLatch
//
// Kazoo looks at the word and the number only, so that the marks stay possible.
// It has nothing like our semaphores and double barriers, which keep their names.
// Curator's semaphores have a layout of their own: see leases.go.
type layout struct {
	kazoo, latch bool
	leases       bool // semaphores are Curator's
	barriers     bool // barriers are Curator's
}

// word is what comes before the number.
type word struct {
	text      string
	kind      driver.Kind // unless a mark says another
	exclusive bool
	layout    layout
}

var words = []word{
	{"lock-", driver.Mutex, true, layout{}},
	{"__READ__", driver.RWMutex, false, layout{}},
	{"__WRIT__", driver.RWMutex, true, layout{}},
	{"latch-", driver.Election, true, layout{latch: true}},
	{"__lock__", driver.Mutex, true, layout{kazoo: true}},
	{"__rlock__", driver.RWMutex, false, layout{kazoo: true}},
}

// checkShape refuses what a name could not say: only permits have a number in it.
func checkShape(r *driver.Request) error {
	one, capacity := int64(1), int64(1)
	switch r.Kind {
	case driver.Semaphore:
		return nil
	case driver.Mutex, driver.Election:
	case driver.Barrier:
		capacity = driver.RWCapacity
	case driver.RWMutex:
		capacity = driver.RWCapacity
		if r.Units == capacity {
			one = capacity
		}
	default:
		return driver.Invalid(fmt.Errorf("zookeeper: tickets of the kind %q have no name", r.Kind))
	}
	if r.Units != one || r.Capacity != capacity {
		return driver.Invalid(fmt.Errorf("zookeeper: %d units of %d are none of a %s, which has %d of %d", r.Units, r.Capacity, r.Kind, one, capacity))
	}
	return nil
}

// stem is the name of a ticket but for its number.
func (l layout) stem(id string, kind driver.Kind, units, capacity int64, marks ...string) string {
	var b strings.Builder
	b.WriteString("_c_" + uuid(id) + "-")
	for _, m := range marks {
		b.WriteString(m + "-")
	}
	lock := "lock-"
	if l.kazoo {
		lock = "__lock__"
	}
	switch {
	case kind == driver.RWMutex && units == capacity && l.kazoo:
		b.WriteString("write-" + lock)
	case kind == driver.RWMutex && units == capacity:
		b.WriteString("__WRIT__")
	case kind == driver.RWMutex && l.kazoo:
		b.WriteString("__rlock__")
	case kind == driver.RWMutex:
		b.WriteString("__READ__")
	case kind == driver.Mutex:
		b.WriteString("mutex-" + lock)
	case kind == driver.Election && l.latch:
		b.WriteString("election-latch-")
	case kind == driver.Election:
		b.WriteString("election-" + lock)
	case kind == driver.Barrier:
		b.WriteString("member-lock-")
	case l.leases:
		fmt.Fprintf(&b, "leases%dof%d-lock-", units, capacity)
	default:
		fmt.Fprintf(&b, "permits%dof%d-lock-", units, capacity)
	}
	return b.String()
}
