package exchange

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/coalesce"
	"github.com/interlock-go/interlock/internal/follow"
)

// Driver is one client of a backend.
type Driver struct {
	store   Store
	traits  Traits
	detach  Detacher // nil: the store is none
	mailbox string
	now     func() driver.Instant

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	next      chan func(ctx context.Context) // for the goroutine that rests: see work
	rests     atomic.Bool
	closing   sync.Mutex // held while a task is added, and when ctx ends: then no more are added
	exchanges atomic.Uint64
	running   coalesce.Tasks // see once
	listener  listener
	topics    *follow.Topics
	limiter   *Limiter // nil: no bound
	repeats   bool     // see Repeat
	joins     queueLimiter

	patientUntil atomic.Int64 // a [driver.Instant]: see prompt

	batching sync.Mutex
	lanes    map[laneOf]*lane

	mu      sync.Mutex
	entries map[string]*entry // by ID of the ticket
	numbers map[uint64]*entry // the same, by number
	resyncs int               // how many there were
	heeding bool              // see heed
	doubled driver.Instant    // the network has brought a Join twice then
}

// New makes a driver, which closes the store with itself. The mailbox is this client's, as
// NewMailbox makes it: no other client has it.
func New(store Store, mailbox string) *Driver {
	d := &Driver{
		store: store, mailbox: mailbox, now: driver.Now, entries: map[string]*entry{}, numbers: map[uint64]*entry{},
		joins: queueLimiter{queues: map[string]*queueRoom{}}, lanes: map[laneOf]*lane{},
		next: make(chan func(context.Context)),
	}
	if s, ok := store.(Traited); ok {
		d.traits = s.Traits()
	}
	if d.traits.PerRenew == 0 {
		d.traits.PerRenew = perLook
	}
	d.detach, _ = store.(Detacher)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.topics = follow.New(d.usable, d.ctx.Done())
	d.topics.Keep = d.traits.Topics
	d.listener.init()
	if d.traits.Listens {
		d.expectEvents() // until Close
	}
	return d
}

// NewMailbox makes the name of a mailbox that no other client has.
func NewMailbox() string { return "interlock_" + NewID()[:24] }

// NewID makes the ID of a session.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// IsID reports whether NewID could have made an ID. A backend asks, if others may have written what it has read.
func IsID(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// IsMailbox is the same of NewMailbox.
func IsMailbox(s string) bool {
	id, ok := strings.CutPrefix(s, "interlock_")
	return ok && len(id) == 24 && strings.Trim(id, "0123456789abcdef") == ""
}

// Now is the local steady clock.
func (d *Driver) Now() driver.Instant { return d.now() }

// SetClock replaces [driver.Now], for tests in simulated time. It is called before the driver is
// used.
func (d *Driver) SetClock(now func() driver.Instant) { d.now = now }

// Repeat has each exchange made twice, for tests of a network that repeats requests. It is called before
// the driver is used.
func (d *Driver) Repeat() { d.repeats = true }

// Exchanges counts the calls of the store that are exchanges.
func (d *Driver) Exchanges() uint64 {
	if c, ok := d.store.(Counter); ok {
		return c.Exchanges()
	}
	return d.exchanges.Load()
}

const (
	minTTL = 100 * time.Millisecond
	maxTTL = 30 * 24 * time.Hour
	// maxHold keeps times in microseconds far from the end of 64 bits.
	maxHold = 100 * 365 * 24 * time.Hour
)

// Open starts a session.
func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	s := newSession(d, Session{ID: NewID(), TTL: min(max(o.TTL, minTTL), maxTTL), Owner: o.Owner, Mailbox: d.mailbox})
	began := d.Now()
	s.proof = began
	begun, err := callStore(ctx, d, Store.Begin, s.row)
	if err != nil {
		return nil, err
	}
	s.history = begun.History
	if begun.TTL > 0 {
		s.ttl, s.row.TTL, s.left.Span = begun.TTL, begun.TTL, begun.TTL
	}
	d.listener.pollAtLeast(s.ttl / 3)
	opened := &driver.Opened{Session: s, ID: s.row.ID, TTL: s.ttl, Liveness: begun.Liveness}
	if begun.Paused > 0 {
		opened.Paused = began.Add(begun.Paused)
	}
	return opened, nil
}

// Check examines the backend.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	return d.store.Check(ctx)
}

// Close ends the calls under way. The tickets of open sessions expire.
func (d *Driver) Close() error {
	d.closing.Lock()
	closed := d.ctx.Err() != nil
	d.cancel()
	d.closing.Unlock()
	if closed {
		return nil
	}
	d.tasks.Wait()
	d.store.Close()
	return nil
}

// background runs a task for which no caller need wait. It reports false, and does not run it, if
// the driver is closed; Close waits for those that run.
func (d *Driver) background(task func(ctx context.Context)) (runs bool) {
	if !d.begin() {
		return false
	}
	select {
	case d.next <- task:
	default:
		go d.work(task)
	}
	return true
}

// begin counts a task, until tasks.Done. It reports false if the driver is closed.
func (d *Driver) begin() bool {
	d.closing.Lock()
	defer d.closing.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.tasks.Add(1)
	return true
}

// work does tasks, one after the other. One goroutine waits for the next: the stack of a new one grows in each
// exchange, which costs more than anything else that the client does.
func (d *Driver) work(task func(ctx context.Context)) {
	for {
		task(d.ctx)
		d.tasks.Done()
		if d.rests.Swap(true) {
			return
		}
		select {
		case task = <-d.next:
			d.rests.Store(false)
		case <-d.ctx.Done():
			return
		}
	}
}

// soon is background for a task that takes backgroundTimeout at most. A heartbeat finds what it has
// left undone.
func (d *Driver) soon(task func(ctx context.Context)) (runs bool) {
	return d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
		defer cancel()
		task(ctx)
	})
}

const backgroundTimeout = 10 * time.Second

// once runs a task in the background, one at a time for each name. It runs once more
// if it was asked for meanwhile: what was meant then, it may have begun too early to see. If it
// fails, it does not.
func (d *Driver) once(name string, task func(ctx context.Context) error) {
	if d.running.Begin(name) {
		d.again(name, task)
	}
}

func (d *Driver) again(name string, task func(ctx context.Context) error) {
	d.soon(func(ctx context.Context) {
		if task(ctx) != nil {
			d.running.End(name)
		} else if d.running.More(name) {
			d.again(name, task)
		}
	})
}
