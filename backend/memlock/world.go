package memlock

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// World holds queues and cells in memory; its drivers act as clients that see
// each other. It is safe for concurrent use.
type World struct {
	mu  sync.Mutex
	now driver.Instant // read once by each call, with mu held

	timer *time.Timer    // for the first end of a ticket
	armed driver.Instant // when timer fires; never if it is not running

	sessions map[*session]bool // that are not over
	queues   map[string]*rows.Queue
	most     int // how many queues there are before those that say nothing are forgotten
	tickets  map[string]*ticket
	left     recent[departed] // the IDs of tickets that must not come (again)
	token    uint64           // the last token of all queues that were not raised above it
	follows  bells            // rung when the queue of that name changes

	cells   map[string]driver.Cell
	swaps   recent[swapped]
	watches bells // rung when the cell of that name changes

	granted []*ticket // by the exchange under way
	spare   []*ticket
}

const never = driver.Instant(math.MaxInt64)

// epoch is the zero of the clock of all worlds. It is so long ago because time
// in a synctest bubble begins with the year 2000, and no reading shall be
// negative there.
var epoch = time.Now().Add(-50 * 365 * 24 * time.Hour)

func now() driver.Instant { return driver.Instant(time.Since(epoch)) }

// clock is the time of rows: that of the steady clock.
func clock(at driver.Instant) time.Time { return time.Unix(0, int64(at)) }

func instant(at time.Time) driver.Instant { return driver.Instant(at.UnixNano()) }

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{
		armed:    never,
		sessions: map[*session]bool{},
		queues:   map[string]*rows.Queue{},
		most:     minQueues,
		tickets:  map[string]*ticket{},
		left:     recent[departed]{span: time.Second},
		follows:  bells{},
		cells:    map[string]driver.Cell{},
		swaps:    recent[swapped]{span: driver.SwapMemory},
		watches:  bells{},
	}
}

var shared = struct {
	sync.Mutex
	worlds map[string]*World
}{worlds: map[string]*World{}}

// Shared returns the world of that name in this process, the one that the URL
// mem:name means. It lasts as long as the process.
func Shared(name string) *World {
	shared.Lock()
	defer shared.Unlock()
	w := shared.worlds[name]
	if w == nil {
		w = NewWorld()
		shared.worlds[name] = w
	}
	return w
}

// Driver returns a new client of the world.
func (w *World) Driver() *Driver {
	d := &Driver{world: w, done: make(chan struct{})}
	d.faults.d = d
	return d
}

// enter begins a call: whatever is due has happened before it.
func (w *World) enter() {
	w.mu.Lock()
	w.now = now()
	if w.armed <= w.now {
		w.expire()
	}
}

func (w *World) exit() { w.mu.Unlock() }

// wake has the timer fire when a ticket ends, or sooner. It is not touched when a ticket is renewed or leaves: it
// fires for nothing about once per TTL, so that joining and leaving need not care for it.
func (w *World) wake(t *ticket) {
	if instant(t.End) >= w.armed {
		return
	}
	w.armed = instant(t.End)
	if in := time.Duration(w.armed - w.now); w.timer == nil {
		w.timer = time.AfterFunc(in, func() { w.enter(); w.exit() })
	} else {
		w.timer.Reset(in)
	}
}

// expire takes out the tickets whose time has come.
func (w *World) expire() {
	w.armed = never
	for _, t := range w.sorted(func(t *ticket) bool { return instant(t.End) <= w.now }) {
		_ = w.exchange(t.Queue, func(*rows.Queue) error { return nil })
	}
	for _, t := range w.tickets {
		if instant(t.End) > w.now {
			w.wake(t)
		}
	}
	w.disarm()
}

// disarm stops the timer of a world without tickets.
func (w *World) disarm() {
	if len(w.tickets) == 0 && w.timer != nil {
		w.timer.Stop()
		w.timer, w.armed = nil, never
	}
}

// sorted names some tickets, always in the same order.
func (w *World) sorted(some func(*ticket) bool) (all []driver.Ticket) {
	for _, t := range w.tickets {
		if some(t) {
			all = append(all, driver.Ticket{ID: t.ID, Queue: t.queue})
		}
	}
	slices.SortFunc(all, func(a, b driver.Ticket) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// queue returns the row of a queue, which is made if it is missing. Those that say nothing are forgotten when there
// are many: the name of a lock that is taken again and again is not stored each time.
func (w *World) queue(name string) *rows.Queue {
	q := w.queues[name]
	if q == nil {
		if len(w.queues) >= w.most {
			maps.DeleteFunc(w.queues, func(_ string, q *rows.Queue) bool {
				rows.Begin(q, clock(w.now))
				return q.Empty()
			})
			w.most = max(minQueues, 2*len(w.queues))
		}
		q = &rows.Queue{Name: name, Memory: memory{w}}
		w.queues[name] = q
	}
	return q
}

const minQueues = 1024

// exchange makes one with a queue, and tells of what it has changed. Nothing was due before it.
func (w *World) exchange(name string, does func(*rows.Queue) error) error {
	q := w.queue(name)
	w.granted = w.granted[:0]
	rows.Begin(q, clock(w.now))
	err := does(q)
	if q.Waits() {
		for _, t := range w.granted {
			w.tell(t, driver.Wanted)
		}
	}
	if q.Changed {
		w.follows.ring(name)
	}
	return err
}

// tell has a demand signalled to the ticket's session; one that is still to be
// delivered is not doubled.
func (w *World) tell(t *ticket, demand driver.Demand) {
	s := t.owner
	if !t.Held && demand == driver.Wanted || s.over || t.told&(1<<demand) != 0 {
		return
	}
	t.told |= 1 << demand
	s.signals = append(s.signals, driver.Signal{Demand: demand, Queue: t.queue, ID: t.ID})
	s.bell.ring()
}
