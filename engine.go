package interlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bounded"
)

// engine is one client at its backend: its session, and what it has in the queues there.
type engine struct {
	d   driver.Driver
	cfg config

	ctx    context.Context // ends when Close begins
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // goroutines of the client itself

	closing atomic.Bool             // Close has begun: nothing is granted any more
	bodies  atomic.Int64            // running functions of Do
	tickets atomic.Int64            // that are listed in the queues
	quiet   chan struct{}           // poked while closing, when the last ticket or function of Do is over
	sess    atomic.Pointer[session] // nil while there is none; changed with the mutex held

	mu        sync.Mutex
	closed    bool          // no goroutine is started any more
	sessErr   error         // why sess is nil
	sessNews  chan struct{} // closed when sess or sessErr changes
	ttl       time.Duration // as granted
	queues    map[string]*queue
	unused    []*queue
	exchanges uint64 // that cfg.renewed was told of

	late atomic.Int64 // leases that were lost while their work goes on

	reaper *reaper
	spare  spareWaiters
}

// config is what an engine is made with. It calls the functions without a mutex.
type config struct {
	ttl   time.Duration // a wish
	owner string

	observed bool // there is one who wants to be told, by the functions below and by holders
	renewed  func(ctx context.Context, took time.Duration, exchanges uint64)
	reopened func(ctx context.Context, took time.Duration)
	changed  func(ttl time.Duration) // the backend grants another TTL than the one that was asked for; may be nil
}

// request is what a lock wants of its queue. It does not change.
type request struct {
	name     string // as the user knows it
	queue    string // as the backend knows it
	kind     driver.Kind
	units    int64
	capacity int64

	hold        time.Duration // that the lease lasts; 0: for as long as it is renewed
	atLeast     time.Duration // that others are kept out
	atMost      time.Duration // that the lease lasts; 0: for as long as its holder wants
	reentrant   bool
	reportDeath bool
	sticky      bool
	strict      bool
	note        string
}

// exclusive reports whether its holder holds all there is.
func (r *request) exclusive() bool { return r.units == r.capacity }

// shares reports whether goroutines of this process may hand a ticket on.
func (r *request) shares() bool {
	return (r.kind == driver.Mutex || r.kind == driver.RWMutex) && !r.strict && r.hold == 0 && r.atLeast == 0 && r.atMost == 0
}

// holder is who acquires a lease, and then has it. It is asked and told without a mutex.
type holder interface {
	// beginWait is called when a wait begins, in the place of a ticket, or "" for one in a line. The context that it
	// returns ends with ctx, or when the wait is to fail, and its cause is what it fails with. over is called when
	// the wait has ended.
	beginWait(ctx context.Context, ticket string) (step context.Context, over func())

	// capacitySet is the capacity that the queue has by now, after ErrMismatch, and whether it was set for good. 0:
	// that is not why it is one.
	capacitySet(ctx context.Context) (capacity int64, set bool, err error)

	waits()             // the acquire has to wait
	retries(err error)  // a try has failed, and is made again
	rejoined(err error) // it has lost its place, and waits at the end

	released(held time.Duration, err error)
	lost(at time.Time, err error)
	inDoubt(at time.Time, err error)
	overruns(since time.Duration, err error) // its work goes on; without an error it has ended
}

// newEngine opens the first session and starts everything that runs until Close.
func newEngine(ctx context.Context, d driver.Driver, cfg config) (*engine, error) {
	e := &engine{
		d: driver.Checked(d), cfg: cfg, ttl: cfg.ttl,
		quiet:    make(chan struct{}, 1),
		sessNews: make(chan struct{}),
		queues:   map[string]*queue{},
		reaper:   newReaper(),
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	call := bounded.New(ctx, openTimeout)
	defer call.Release()
	s, err := e.d.Open(call, driver.SessionOptions{TTL: cfg.ttl, Owner: cfg.owner})
	if err != nil {
		e.cancel(ErrClosed)
		return nil, err
	}
	e.install(s)
	e.tasks.Go(e.reap)
	return e, nil
}

// driver is the backend, with all arguments checked.
func (e *engine) driver() driver.Driver { return e.d }

// context ends when close begins.
func (e *engine) context() context.Context { return e.ctx }

// overrunning is how many leases were lost though work goes on under them.
func (e *engine) overrunning() int { return int(e.late.Load()) }

// sizes counts what is remembered.
func (e *engine) sizes() (tickets, queues int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.tickets.Load()), len(e.queues)
}

// grantedTTL returns what the backend granted, which may differ from what was asked.
func (e *engine) grantedTTL() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ttl
}

// background runs f beside the caller; Close waits for it. A client that is
// closed runs nothing more: the end of its session settles what is left.
func (e *engine) background(f func()) (runs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.tasks.Go(f)
	}
	return !e.closed
}

// isClosed reports whether Close has given up what was under way.
func (e *engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// call bounds one exchange: a third of the TTL is a heartbeat's time, and a
// reply that has not come by then is taken for lost.
func (e *engine) call(ctx context.Context) *bounded.Context {
	return bounded.New(ctx, callTimeout(e.cfg.ttl))
}

// openTimeout bounds the opening of a session by a backend that does not answer.
const openTimeout = 10 * time.Second

func callTimeout(ttl time.Duration) time.Duration { return max(ttl/3, time.Second) }
