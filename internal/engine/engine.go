// Package engine is one client at one backend: its session and heartbeat, what it has in each queue, and the leases of
// its holders. What a user calls stands above it, and what a backend does below it, in package driver. It knows no
// lock, no event and no option: a [Request] says what is wanted, and a [Holder] is asked and told.
//
//   - There is one mutex for each queue, and for the parts of each lease of All. None is held during a call of the
//     backend or of a holder, and none of them is locked under another.
//   - A ticket is listed in its queue if and only if the backend may have it.
//   - Only machine.go writes the state of a ticket; its table says what can follow what.
//   - What follows from a change is done when the mutex is free (guard.unlock).
package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bounded"
)

// Engine is one client at its backend: its session, and what it has in the queues there.
type Engine struct {
	d   driver.Driver
	cfg Config

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

// Config is what an engine is made with. It calls the functions without a mutex.
type Config struct {
	TTL   time.Duration // a wish
	Owner string

	Observed bool // there is one who wants to be told, by the functions below and by holders
	Renewed  func(ctx context.Context, took time.Duration, exchanges uint64)
	Reopened func(ctx context.Context, took time.Duration)
	Changed  func(ttl time.Duration) // the backend grants another TTL than the one that was asked for; may be nil
}

// Request is what a lock wants of its queue. It does not change.
type Request struct {
	Name     string // as the user knows it
	Queue    string // as the backend knows it
	Kind     driver.Kind
	Units    int64
	Capacity int64

	Hold        time.Duration // that the lease lasts; 0: for as long as it is renewed
	AtLeast     time.Duration // that others are kept out
	AtMost      time.Duration // that the lease lasts; 0: for as long as its holder wants
	Reentrant   bool
	ReportDeath bool
	Sticky      bool
	Strict      bool
	Note        string
}

// Exclusive reports whether its holder holds all there is.
func (r *Request) Exclusive() bool { return r.Units == r.Capacity }

// shares reports whether goroutines of this process may hand a ticket on.
func (r *Request) shares() bool {
	return (r.Kind == driver.Mutex || r.Kind == driver.RWMutex) && !r.Strict && r.Hold == 0 && r.AtLeast == 0 && r.AtMost == 0
}

// Holder is who acquires a lease, and then has it. It is asked and told without a mutex.
type Holder interface {
	// BeginWait is called when a wait begins, in the place of a ticket, or "" for one in a local queue. The context
	// that it returns ends with ctx, or when the wait is to fail, and its cause is what it fails with. over is called
	// when the wait has ended.
	BeginWait(ctx context.Context, ticket string) (step context.Context, over func())

	// CapacitySet is the capacity that the queue has by now, after driver.ErrMismatch, and whether it was set for good.
	// 0: that is not why it is one.
	CapacitySet(ctx context.Context) (capacity int64, set bool, err error)

	Waits()             // the acquire has to wait
	Retries(err error)  // a try has failed, and is made again
	Rejoined(err error) // it has lost its place, and waits at the end

	Released(held time.Duration, err error)
	Lost(at time.Time, err error)
	InDoubt(at time.Time, err error)
	Overruns(since time.Duration, err error) // its work goes on; without an error it has ended
}

// New opens the first session and starts everything that runs until Close.
func New(ctx context.Context, d driver.Driver, cfg Config) (*Engine, error) {
	e := &Engine{
		d: driver.Checked(d), cfg: cfg, ttl: cfg.TTL,
		quiet:    make(chan struct{}, 1),
		sessNews: make(chan struct{}),
		queues:   map[string]*queue{},
		reaper:   newReaper(),
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	call := bounded.New(ctx, openTimeout)
	defer call.Release()
	s, err := e.d.Open(call, driver.SessionOptions{TTL: cfg.TTL, Owner: cfg.Owner})
	if err != nil {
		e.cancel(ErrClosed)
		return nil, err
	}
	e.install(s)
	e.tasks.Go(e.reap)
	return e, nil
}

// Driver is the backend, with all arguments checked.
func (e *Engine) Driver() driver.Driver { return e.d }

// Context ends when close begins.
func (e *Engine) Context() context.Context { return e.ctx }

// Overruns is how many leases were lost though work goes on under them.
func (e *Engine) Overruns() int { return int(e.late.Load()) }

// Sizes counts what is remembered.
func (e *Engine) Sizes() (tickets, queues int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.tickets.Load()), len(e.queues)
}

// TTL returns what the backend granted, which may differ from what was asked.
func (e *Engine) TTL() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ttl
}

// Background runs f beside the caller; Close waits for it. A client that is
// closed runs nothing more: the end of its session settles what is left.
func (e *Engine) Background(f func()) (runs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.tasks.Go(f)
	}
	return !e.closed
}

// Task is Background for a caller that may wait: done is closed when f has returned. A caller that waits listens to the
// end of the client, too.
func (e *Engine) Task(f func()) (done <-chan struct{}) {
	ends := make(chan struct{})
	e.Background(func() {
		defer close(ends)
		f()
	})
	return ends
}

// isClosed reports whether Close has given up what was under way.
func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// Call bounds one exchange: a third of the TTL is a heartbeat's time, and a
// reply that has not come by then is taken for lost.
func (e *Engine) Call(ctx context.Context) *bounded.Context {
	return bounded.New(ctx, e.CallLimit())
}

// CallLimit is the longest time that one exchange takes.
func (e *Engine) CallLimit() time.Duration { return callTimeout(e.cfg.TTL) }

// openTimeout bounds the opening of a session by a backend that does not answer.
const openTimeout = 10 * time.Second

func callTimeout(ttl time.Duration) time.Duration { return max(ttl/3, time.Second) }
