package interlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Client is one member: it has one session with the backend and one heartbeat,
// whatever it holds. A client outlives its sessions: when one dies, its leases
// are lost and say so, a new session is opened, and waiters line up again. All
// methods may be called concurrently.
type Client struct {
	d   driver.Driver
	cfg clientConfig

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // goroutines of the client itself
	bodies sync.WaitGroup // running functions of Do

	mu       sync.Mutex
	closing  bool          // Close has begun
	closed   bool          // nothing more may be started
	sess     *session      // nil while there is none
	sessErr  error         // why there is none
	sessNews chan struct{} // closed when sess or sessErr changes
	tickets  map[string]*ticket
	lines    map[lineKey]*line

	reaper reaper
}

// start opens the first session and everything that runs until Close.
func start(ctx context.Context, d driver.Driver, cfg clientConfig) (*Client, error) {
	c := &Client{
		d: d, cfg: cfg,
		sessNews: make(chan struct{}),
		tickets:  map[string]*ticket{},
		lines:    map[lineKey]*line{},
		reaper:   reaper{poke: make(chan struct{}, 1)},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	s, err := d.Open(ctx, driver.SessionOptions{TTL: cfg.ttl, Owner: cfg.owner})
	if err != nil {
		c.cancel(ErrClosed)
		return nil, err
	}
	c.install(s)
	c.tasks.Go(c.reap)
	return c, nil
}

// TTL returns what the backend granted, which may differ from what was asked.
func (c *Client) TTL() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sess == nil {
		return c.cfg.ttl
	}
	return c.sess.ttl
}

// Exchanges counts the exchanges with the backend so far.
func (c *Client) Exchanges() uint64 { return c.d.Exchanges() }

// Check examines whether the backend is configured so that its promises hold.
func (c *Client) Check(ctx context.Context) []Finding { return c.d.Check(ctx) }

// Finding is one result of Check.
type Finding = driver.Finding

// Close ends waiting and every context that is bound to a lease, with the
// cause ErrClosed, waits for the running functions of Do, but no longer than
// their leases last, and releases what is held; leases of Hold stay. A lease
// whose function is still running then is left as if its holder had died.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return fmt.Errorf("interlock: close: %w", ErrClosed)
	}
	c.closing = true
	sess := c.sess
	c.mu.Unlock()
	if sess != nil {
		sess.stop()
	}
	c.awaitBodies()

	c.cancel(ErrClosed) // ends waiting and the goroutines of the session
	var wg sync.WaitGroup
	for _, t := range c.allTickets() {
		wg.Go(t.close)
	}
	wg.Wait()
	c.mu.Lock()
	c.closed = true
	sess, c.sess = c.sess, nil
	c.mu.Unlock()
	c.tasks.Wait()
	var errs []error
	if sess != nil {
		sess.tasks.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), sess.callTimeout())
		defer cancel()
		if err := sess.s.Close(ctx); err != nil && !isSessionOver(err) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, c.d.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("interlock: close: %w", err)
	}
	return nil
}

// awaitBodies ends the bound contexts and waits until no function of Do runs,
// or the lease of none stands.
func (c *Client) awaitBodies() {
	idle := make(chan struct{})
	go func() { // ends with the last body
		c.bodies.Wait()
		close(idle)
	}()
	var last driver.Instant
	for _, t := range c.allTickets() {
		last = max(last, t.wind())
	}
	wait := time.NewTimer(max(0, last.Sub(c.d.Now())))
	defer wait.Stop()
	select {
	case <-idle:
	case <-wait.C:
	}
}

func (c *Client) allTickets() []*ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.tickets))
}

// enterBody notes that a function of Do runs under the lease.
func (c *Client) enterBody(l *Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosed
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.body = true
	c.bodies.Add(1)
	return nil
}

// wind ends the contexts that are bound to the ticket's leases, not the leases
// themselves. It returns the deadline if a function of Do runs under one.
func (t *ticket) wind() (deadline driver.Instant) {
	t.mu.Lock()
	var bound []*binding
	for _, l := range t.leases {
		bound = slices.AppendSeq(bound, maps.Keys(l.bound))
		if l.body {
			deadline = t.deadline
		}
	}
	t.mu.Unlock()
	for _, b := range bound {
		b.cancel(ErrClosed)
	}
	return deadline
}

// close releases the ticket, or leaves it to its fixed end.
func (t *ticket) close() {
	t.mu.Lock()
	if t.state != ticketHeld {
		if t.state != ticketLost {
			t.state = ticketLeft
		}
		t.mu.Unlock()
		return
	}
	var after []func()
	clean, keep := true, time.Duration(0)
	for _, l := range t.leases {
		clean = clean && !l.body
		keep = max(keep, t.since.Add(l.lock.cfg.atLeast).Sub(t.c.d.Now()))
		after = append(after, l.end(ErrReleased))
	}
	fixed := t.fixed()
	if fixed {
		t.state = ticketLeft
	}
	t.mu.Unlock()
	for _, f := range after {
		f()
	}
	switch {
	case fixed:
		t.unregister()
	case keep > 0:
		_ = t.leaveAfter(keep)
	default:
		_ = t.leave(clean)
	}
}

// callContext bounds one exchange: a third of the TTL is a heartbeat's time,
// and a reply that has not come by then is taken for lost.
func (c *Client) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout(c.cfg.ttl))
}

func callTimeout(ttl time.Duration) time.Duration { return max(ttl/3, time.Second) }
