package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/curator"
	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/doctor"
)

// store is the exchanges with one ensemble. The row of a session is a session of ZooKeeper, whose end takes its
// tickets: each has a connection of its own, unless the program gave one for all. A queue has no row: who is held
// follows from the nodes that stand. So the client's own session decides from memory what only it can change: which of
// its tickets are strays, were evicted, or must not come back.
type store struct {
	*config
	layouts  *curator.Layouts
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	retired  atomic.Uint64 // exchanges of connections that are closed
	dialling zk.Turn       // of spare

	mu       sync.Mutex
	closed   bool
	receive  func(exchange.Event) // nil: the client does not listen
	sessions map[string]*session  // by ID
	spare    *link                // for calls without a session
	queues   map[string]*queue    // by name
	watched  map[uint64][]func()  // what ends the watches of a follower, by topic
	shown    map[string]member    // of tickets, by their nodes: what does not change
	memory   time.Duration        // of swaps
	swaps    []swapped            // that may be forgotten, oldest first
	swept    driver.Instant       // when markers of others were looked at
	granted  uint64               // the last transaction of a ticket that was granted here
	token    uint64               // the largest token that was granted here
}

var (
	_ exchange.Changer  = (*store)(nil)
	_ exchange.Counter  = (*store)(nil)
	_ exchange.Detacher = (*store)(nil)
	_ exchange.Raiser   = (*store)(nil)
	_ exchange.Resizer  = (*store)(nil)
	_ exchange.Traited  = (*store)(nil)
)

func newStore(c *config) *store {
	s := &store{config: c, sessions: map[string]*session{}, queues: map[string]*queue{}, watched: map[uint64][]func(){}, dialling: zk.NewTurn(), shown: map[string]member{}, memory: driver.SwapMemory + 10*time.Second}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.layouts = curator.New(lines{s}, c.semaphores, c.barriers)
	return s
}

// newDriver is a client of a store.
func newDriver(c *config) driver.Driver {
	return exchange.New(newStore(c).laidOut(), exchange.NewMailbox())
}

// Traits: nobody has to ask for the end of a ticket, since the end of a session removes its nodes, and these are
// watched.
func (s *store) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, LookSettles: true, WithSession: true, PerRenew: math.MaxInt,
		Together: together, Patience: patience, OnePerQueue: true}
}

// link is a connection, and what is added to tokens, which it reads once.
type link struct {
	*zk.Link
	floors floors
}

func newLink(l *zk.Link) *link { return &link{l, floors{turn: zk.NewTurn()}} }

func (s *store) dialled(ctx context.Context, ttl time.Duration) (*link, error) {
	l, err := s.servers.Connect(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return newLink(l), nil
}

// top is the node that all others are below.
func (c *config) top() string { return cmp.Or(c.root, "/") }

// aside returns the path of something that is not a queue.
func (c *config) aside(parts ...string) string {
	p := c.root + "/" + reserved
	for _, part := range parts {
		p += "/" + part
	}
	return p
}

// Exchanges counts requests, those by which the client keeps its connections
// alive included.
func (s *store) Exchanges() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.retired.Load()
	if s.given != nil {
		return sum + s.given.Exchanges()
	}
	for _, o := range s.sessions {
		sum += o.l.Exchanges()
	}
	if s.spare != nil {
		sum += s.spare.Exchanges()
	}
	return sum
}

var errClosed = driver.Permanent(errors.New("zookeeper: the driver is closed"))

// bound ends a call's context with the store, too.
func (s *store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return endsWith(ctx, s.ctx)
}

// endsWith is a context that also ends with another one.
func endsWith(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}

// with makes an exchange that needs no session.
func (s *store) with(ctx context.Context, f func(context.Context, *link) error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	l, err := s.link(ctx)
	if err != nil {
		return err
	}
	return f(ctx, l)
}

// link returns a connection for a call that needs no session.
func (s *store) link(ctx context.Context) (*link, error) {
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	if s.given != nil {
		return s.given, nil
	}
	if l := s.linkThere(); l != nil {
		return l, nil
	}
	if err := s.dialling.Take(ctx); err != nil {
		return nil, err
	}
	defer s.dialling.Give()
	if l := s.linkThere(); l != nil {
		return l, nil
	}
	l, err := s.dialled(ctx, 10*time.Second)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go l.Close()
		return nil, errClosed
	}
	s.spare = l
	return l, nil
}

func (s *store) linkThere() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.sessions {
		if id, _ := o.l.State(); id == o.zk && !o.isOver() {
			return o.l
		}
	}
	if l := s.spare; l != nil && l.Lost() {
		s.spare = nil
		s.retired.Add(l.Exchanges())
		go l.Close()
	}
	return s.spare
}

// Close ends what is under way. Sessions that are open end.
func (s *store) Close() {
	s.mu.Lock()
	s.closed = true
	var open []*session
	for _, o := range s.sessions {
		open = append(open, o)
	}
	spare := s.spare
	s.mu.Unlock()
	s.cancel()
	var closing sync.WaitGroup
	for _, o := range open {
		closing.Go(o.free)
	}
	if spare != nil {
		closing.Go(spare.Close)
	}
	closing.Wait()
	s.tasks.Wait()
}

// background runs a task for which no caller waits, until the store is closed. Afterwards it does nothing.
func (s *store) background(f func(ctx context.Context)) (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tasks.Go(func() { f(s.ctx) })
	}
	return !s.closed
}

// Explain marks errors that last.
func (s *store) Explain(err error) error {
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL) {
		return driver.Permanent(fmt.Errorf("zookeeper: %w (user and password of the URL, and the ACLs of the nodes: cdrw is needed on %s and below) (%s)",
			err, s.top(), doctor.Hint))
	}
	if errors.Is(err, zk.ErrTooLong) {
		return driver.Permanent(errors.New("zookeeper: a node has more children than an answer may name"))
	}
	return err
}

// lasts: an error will be the same next time.
func (s *store) lasts(err error) bool { return driver.IsPermanent(s.Explain(err)) }

// lay makes a node and those above it. Queues are containers, which the server
// removes when they are empty.
func (s *store) lay(ctx context.Context, l *link, path string, container bool) error {
	var err error
	if container {
		err = l.Container(ctx, path, s.acl)
	} else {
		err = l.Make(ctx, path, nil, zk.Persistent, s.acl)
	}
	switch {
	case err == nil || errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		above := parent(path)
		if above == "" {
			return err
		}
		// The nodes above the names are not ours to remove.
		if err := s.lay(ctx, l, above, container && len(above) > len(s.root)); err != nil {
			return err
		}
		return s.lay(ctx, l, path, container)
	}
	return err
}

// laid makes a change that needs a node, which is made if it is not there. A container that is empty goes away at any
// time.
func (s *store) laid(ctx context.Context, l *link, path string, container bool, change func() error) error {
	for tries := 0; ; tries++ {
		err := change()
		if !errors.Is(err, zk.ErrNoNode) || tries == 10 {
			return err
		}
		if err := s.lay(ctx, l, path, container); err != nil {
			return err
		}
	}
}

// retry repeats a task, with pauses, until it succeeds, or ctx ends.
func retry(ctx context.Context, every time.Duration, task func() error) {
	for task() != nil && backoff.Sleep(ctx, every) == nil {
	}
}

// several does so many things, a bounded number of them at a time.
func several(n, most int, do func(i int)) {
	var begun atomic.Int64
	exchange.AtOnce(min(n, most), func(int) {
		for i := int(begun.Add(1)); i <= n; i = int(begun.Add(1)) {
			do(i - 1)
		}
	})
}

func hexID(session int64) string { return strconv.FormatUint(uint64(session), 16) }
