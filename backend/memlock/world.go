package memlock

import (
	"math"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// World holds queues and cells in memory; its drivers act as clients that see
// each other. It is safe for concurrent use.
type World struct {
	mu  sync.Mutex
	now driver.Instant // read once by each call, with mu held

	alarms alarms
	timer  *time.Timer
	armed  driver.Instant // when timer fires; never if it is not running

	queues  map[string]*queue
	tickets map[id]*ticket
	left    recent[departed] // the IDs of tickets that must not come (again)
	token   uint64           // the last token of all queues without a floor of their own
	changes uint64           // numbers the states of all queues
	follows bells            // rung when the queue of that name changes

	cells   map[string]driver.Cell
	swaps   recent[swapped]
	watches bells // rung when the cell of that name changes

	spareTickets *ticket
	spareQueues  int
}

const never = driver.Instant(math.MaxInt64)

// epoch is the zero of the clock of all worlds. It is so long ago because time
// in a synctest bubble begins with the year 2000, and no reading shall be
// negative there.
var epoch = time.Now().Add(-50 * 365 * 24 * time.Hour)

func now() driver.Instant { return driver.Instant(time.Since(epoch)) }

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{
		armed:   never,
		queues:  map[string]*queue{},
		tickets: map[id]*ticket{},
		left:    recent[departed]{span: time.Second},
		follows: bells{},
		cells:   map[string]driver.Cell{},
		swaps:   recent[swapped]{span: driver.SwapMemory},
		watches: bells{},
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
	d := &Driver{world: w, sessions: map[*session]struct{}{}, done: make(chan struct{})}
	d.faults.d = d
	return d
}

// enter begins a call: whatever is due has happened before it.
func (w *World) enter() {
	w.mu.Lock()
	w.now = now()
	if w.alarms.due(w.now) {
		w.expire()
	}
}

func (w *World) exit() { w.mu.Unlock() }
