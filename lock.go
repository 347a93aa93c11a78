package interlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
)

// Lock is whatever can be acquired: a mutex, a side of a read-write lock,
// permits of a semaphore, a stripe, or several of these (see [All]). It is cheap to make, has no state, and may
// be used by many goroutines.
type Lock struct {
	c     *Client
	cfg   lockConfig
	wrong error   // what With cannot mend
	err   error   // why it cannot be acquired
	parts []*Lock // of All, which needs no more of the above than the name and the time of Wait; else nil
}

func (c *Client) lock(kind driver.Kind, name string, units, capacity int64, opts []Option) *Lock {
	return (&Lock{c: c, cfg: c.wanted(kind, name, units, capacity)}).With(opts...)
}

func (c *Client) wanted(kind driver.Kind, name string, units, capacity int64) lockConfig {
	return lockConfig{Request: engine.Request{Name: name, Queue: c.cfg.prefix + name, Kind: kind, Units: units, Capacity: capacity}}
}

// Mutex is a lock that one holds at a time.
func (c *Client) Mutex(name string, opts ...Option) *Lock {
	return c.lock(driver.Mutex, name, 1, 1, opts)
}

// Semaphore is a lock with so many permits; see [Weight] for acquiring several
// at once. Users of one name must agree on their number: ErrMismatch. See
// [Admin.SetPermits] for another number while they work.
func (c *Client) Semaphore(name string, permits int64, opts ...Option) *Lock {
	l := &Lock{c: c, cfg: c.wanted(driver.Semaphore, name, 1, permits)}
	if permits < 1 || permits > driver.RWCapacity {
		l.wrong = fmt.Errorf("a semaphore of %d permits: 1 to %d are possible", permits, driver.RWCapacity)
	}
	return l.With(opts...)
}

// With returns a copy of the lock with further options.
func (l *Lock) With(opts ...Option) *Lock {
	if l.parts != nil {
		return l.withAll(opts)
	}
	n := *l
	for _, o := range opts {
		o(&n.cfg)
	}
	if n.cfg.weight != 0 && n.cfg.Kind == driver.Semaphore {
		n.cfg.Units = n.cfg.weight
	}
	n.err = driver.Invalid(n.check())
	return &n
}

// check finds what can never succeed.
func (l *Lock) check() error {
	if err := l.c.checkName(l.cfg.Name); err != nil {
		return err
	}
	c := l.cfg
	switch {
	case l.wrong != nil:
		return l.wrong
	case c.err != nil:
		return c.err
	case c.weight != 0 && c.Kind != driver.Semaphore:
		return fmt.Errorf("Weight(%d): only semaphores have permits", c.weight)
	case c.Units < 1 || c.Units > c.Capacity:
		return fmt.Errorf("Weight(%d): the semaphore has %d permits", c.Units, c.Capacity)
	case len(c.Note) > driver.MaxNote:
		return fmt.Errorf("the note, or the value of a candidate, has %d bytes: at most %d are allowed", len(c.Note), driver.MaxNote)
	case c.Sticky && c.Kind != driver.Mutex && c.Kind != driver.RWMutex:
		return fmt.Errorf("Sticky: only mutexes and read-write locks are kept, not this %s", c.Kind)
	case c.Sticky && (c.Strict || c.Hold > 0 || c.AtLeast > 0 || c.AtMost > 0):
		return errors.New("Sticky goes with none of StrictOrder, ExpiresAfter, AtLeast and AtMost")
	case c.Hold > 0 && c.AtMost > 0:
		return errors.New("a lock with ExpiresAfter has its end already: leave AtMost out")
	case c.AtMost > 0 && c.AtLeast > c.AtMost:
		return fmt.Errorf("AtLeast(%v) is longer than AtMost(%v)", c.AtLeast, c.AtMost)
	case c.Hold > 0 && c.AtLeast > c.Hold:
		return fmt.Errorf("AtLeast(%v) is longer than ExpiresAfter(%v)", c.AtLeast, c.Hold)
	}
	return nil
}

// Name is the lock's name, without the client's prefix.
func (l *Lock) Name() string { return l.cfg.Name }

// Acquire waits until the lock is held. ctx bounds the wait only, not the
// hold; while the backend cannot be reached it goes on trying. What the next try
// would bring again ends it at once: a wrong password, a missing right, a full
// disk under a SQLite file. When ctx ends first, nothing stays behind. A place in
// the line is left before Acquire returns, unless that takes longer than 100 ms, since the
// backend is slow or away: then it is left later, in the background, at the latest by the
// end of the TTL, and until then a TryAcquire may be refused. A call whose
// answer is missing when ctx ends is not waited for. Errors: the cause of ctx, with
// ErrUnavailable if the backend has not answered; after [Wait] ErrBusy, or ErrUnavailable in
// its place; ErrDeadlock, ErrMismatch, ErrClosed.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	if !l.cfg.waits {
		return l.acquire(ctx, false)
	}
	if l.cfg.wait <= 0 {
		return l.acquire(ctx, true)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, l.cfg.wait, ErrBusy)
	defer cancel()
	return l.acquire(bounded, false)
}

// TryAcquire makes one try: ErrBusy if it would have to wait. It does not wait
// for a backend that cannot be reached either: ErrUnavailable if it fails, or if a third
// of the TTL, or a second if that is longer, brings no answer.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) { return l.acquire(ctx, true) }

func (l *Lock) acquire(ctx context.Context, try bool) (*Lease, error) {
	if l.parts != nil {
		lease, err := l.acquireAll(ctx, try)
		return lease, failed("acquire", l.cfg.Name, err)
	}
	lease := l.newLease(ctx, try)
	how, err := lease.get(ctx, try)
	switch {
	case errors.Is(err, ErrMismatch):
		err = l.disagreement(ctx, err)
	case try && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		err = l.c.e.UnansweredTry(err)
	}
	err = failed("acquire", l.cfg.Name, l.withHolders(ctx, err))
	lease.span.ends(how, lease, err)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// newLease makes a lease of the lock that is not held yet.
func (l *Lock) newLease(ctx context.Context, try bool) *Lease {
	lease := &Lease{lock: l, span: l.newSpan(ctx, try)}
	lease.held.Init(holding{lease}, &l.cfg.Request)
	return lease
}

// get acquires, and says how; "" if the context held the lock already.
func (l *Lease) get(ctx context.Context, try bool) (how EventKind, err error) {
	if nested, err := l.enterOpen(ctx); nested || err != nil {
		return "", err
	}
	if handed, err := l.lock.c.e.Acquire(ctx, &l.held, try); handed || err != nil {
		return EventHandedOver, err
	}
	return EventAcquired, nil
}

// Do acquires the lock, calls f and releases the lock when f has returned. The
// context that f gets ends, with a cause that wraps ErrLost, when the lease is
// lost, and carries the lease: what f starts with it is the holder. ctx bounds
// the work too; see [Wait] for bounding the wait alone. The error joins that
// of f and ErrLost if the lease was lost meanwhile. If f panics, the next
// holder is told that the work may be half done (see [ReportDeath]). If the backend goes away
// meanwhile, Do returns when the release has succeeded or the lease is over, whichever is first.
func (l *Lock) Do(ctx context.Context, f func(context.Context) error) error {
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, f)
}

func (l *Lease) do(ctx context.Context, f func(context.Context) error) error {
	for i, p := range l.held.Parts() {
		if err := p.EnterBody(); err != nil {
			l.leaveBodies(i)
			_ = l.Release()
			return l.fail("acquire", err)
		}
	}
	defer l.leaveBodies(len(l.held.Parts()))
	ctx, cancel := l.Bind(ctx)
	defer cancel()
	defer func() { _ = l.abort() }() // does nothing unless f panics
	err := f(ctx)
	lost := l.Release()
	switch {
	case lost == nil, l.saysLost(err):
		return err
	case err == nil:
		return lost
	}
	return fmt.Errorf("%w; %w", err, lost)
}

// leaveBodies notes for the first n parts that the function of Do has returned.
func (l *Lease) leaveBodies(n int) {
	for _, p := range l.held.Parts()[:n] {
		p.LeaveBody()
	}
}

// saysLost reports whether an error is the cause of a context of this lease, or wraps it.
func (l *Lease) saysLost(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Name == l.Name() && errors.Is(e, ErrLost)
}
