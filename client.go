package interlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bounded"
)

// Client is one member: it has one session with the backend and one heartbeat,
// whatever it holds. A client outlives its sessions: when one dies, its leases
// are lost and say so, a new session is opened, and waiters line up again. All
// methods may be called concurrently.
type Client struct {
	d   driver.Driver
	cfg clientConfig

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
	followers map[string]*follower // by the key of the cell
	exchanges uint64               // that EventRenewed has told of

	overruns atomic.Int64 // leases that were lost while their work goes on

	reaper *reaper
	spare  spareWaiters
}

// start opens the first session and everything that runs until Close.
func start(ctx context.Context, d driver.Driver, cfg clientConfig) (*Client, error) {
	c := &Client{
		d: driver.Checked(d), cfg: cfg, ttl: cfg.ttl,
		quiet:     make(chan struct{}, 1),
		sessNews:  make(chan struct{}),
		queues:    map[string]*queue{},
		followers: map[string]*follower{},
		reaper:    newReaper(),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	call := bounded.New(ctx, openTimeout)
	defer call.Release()
	s, err := c.d.Open(call, driver.SessionOptions{TTL: cfg.ttl, Owner: cfg.owner})
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
	return c.ttl
}

// background runs f beside the caller; Close waits for it. A client that is
// closed runs nothing more: the end of its session settles what is left.
func (c *Client) background(f func()) (runs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.tasks.Go(f)
	}
	return !c.closed
}

// isClosed reports whether Close has given up what was under way.
func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// call bounds one exchange: a third of the TTL is a heartbeat's time, and a
// reply that has not come by then is taken for lost.
func (c *Client) call(ctx context.Context) *bounded.Context {
	return bounded.New(ctx, callTimeout(c.cfg.ttl))
}

// openTimeout bounds the opening of a session by a backend that does not answer.
const openTimeout = 10 * time.Second

func callTimeout(ttl time.Duration) time.Duration { return max(ttl/3, time.Second) }
