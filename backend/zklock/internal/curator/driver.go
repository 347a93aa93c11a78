package curator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Driver is a client of one ensemble. Each session has a connection of its own,
// unless the program gave one for all.
type Driver struct {
	*config
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	retired  atomic.Uint64 // exchanges of connections that are closed
	dialling turn          // of spare

	mu       sync.Mutex
	closed   bool
	sessions map[*session]struct{}
	spare    *link // for calls without a session
	lanes    map[string]*lane
	meetings meetings
	memory   time.Duration  // of swaps
	swaps    []swapped      // that may be forgotten, oldest first
	swept    driver.Instant // when markers of others were looked at
	granted  uint64         // the last transaction of a ticket that was granted here
	token    uint64         // the largest token that was granted here
}

// lane is what is known of a queue.
type lane struct {
	name, path string
	leases     *lane // of a semaphore in Curator's layout: where its units are
	meets      bool  // a double barrier in Curator's layout

	mu      sync.Mutex
	lending *lane // where semaphores of the name are, if not here
	meeting *lane // for double barriers of the name, if they have another layout
	front   int   // how many stood in front of the last one who looked
	set     bool  // there was a setting
	seen    bool  // the data of the node was read
	foreign bool  // it belongs to somebody else
	denied  bool  // the data of the node may not be written
}

// learn notes whose the data of the node is, and reports whether it is ours.
func (q *lane) learn(data []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen, q.foreign = true, !ours(data)
	return !q.foreign
}

func newDriver(c *config) *Driver {
	d := &Driver{config: c, sessions: map[*session]struct{}{}, lanes: map[string]*lane{}, dialling: make(turn, 1), memory: driver.SwapMemory + 10*time.Second}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// top is the node that all others are below.
func (d *Driver) top() string { return cmp.Or(d.root, "/") }

// Now is the local steady clock.
func (d *Driver) Now() driver.Instant { return driver.Now() }

// Exchanges counts requests, those by which the client keeps its connections
// alive included.
func (d *Driver) Exchanges() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := d.retired.Load()
	if d.given != nil {
		return sum + d.given.Exchanges()
	}
	for s := range d.sessions {
		sum += s.l.Exchanges()
	}
	if d.spare != nil {
		sum += d.spare.Exchanges()
	}
	return sum
}

var errClosed = driver.Permanent(errors.New("zookeeper: the driver is closed"))

func (d *Driver) usable(ctx context.Context) error {
	if d.ctx.Err() != nil { // first: it ends contexts that are bound to it
		return errClosed
	}
	return ctx.Err()
}

// bound ends a call's context with the driver, too.
func (d *Driver) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Open starts a session. If its connection ends before that is done, another one is made, for as
// long as the first one might have taken: those of short sessions end when a server is slow.
func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	for until := d.Now().Add(d.servers.Patience); ; {
		s, err := d.open(ctx, o)
		if err == nil {
			return &driver.Opened{Session: s, ID: s.id, TTL: s.ttl}, nil
		}
		if !errors.Is(err, zk.ErrConnectionClosed) || d.Now() >= until {
			return nil, d.failed(err)
		}
	}
}

func (d *Driver) open(ctx context.Context, o driver.SessionOptions) (s *session, err error) {
	l := d.given
	if l == nil {
		l, err = d.dialled(ctx, min(max(o.TTL, minTTL), maxTTL))
	} else {
		err = l.Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	if s, err = newSession(ctx, d, l, o); err != nil {
		d.retire(l)
	}
	return s, err
}

const (
	minTTL = 100 * time.Millisecond // the client takes its limit for connecting from it
	maxTTL = 24 * 24 * time.Hour    // the protocol counts milliseconds in 31 bits
)

// retire closes a connection of our own.
func (d *Driver) retire(l *link) {
	if l.Own {
		l.Close()
		d.retired.Add(l.Exchanges())
	}
}

// link returns a connection for a call that needs no session.
func (d *Driver) link(ctx context.Context) (*link, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	if d.given != nil {
		return d.given, nil
	}
	if l := d.present(); l != nil {
		return l, nil
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	if err := d.dialling.take(ctx); err != nil {
		return nil, d.failed(err)
	}
	defer d.dialling.give()
	if l := d.present(); l != nil {
		return l, nil
	}
	l, err := d.dialled(ctx, 10*time.Second)
	if err != nil {
		return nil, d.failed(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		go l.Close()
		return nil, errClosed
	}
	d.spare = l
	return l, nil
}

func (d *Driver) present() *link {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.sessions {
		if id, _ := s.l.State(); id == s.zk {
			return s.l
		}
	}
	if l := d.spare; l != nil && l.Lost() {
		d.spare = nil
		d.retired.Add(l.Exchanges())
		go l.Close()
	}
	return d.spare
}

// Close ends calls under way. Sessions that are open end.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	var open []*session
	for s := range d.sessions {
		open = append(open, s)
	}
	spare := d.spare
	d.mu.Unlock()
	d.cancel()
	var closing sync.WaitGroup
	for _, s := range open {
		closing.Go(func() { s.end() })
	}
	if spare != nil {
		closing.Go(spare.Close)
	}
	closing.Wait()
	d.tasks.Wait()
	return nil
}

// background runs what nobody waits for, until the driver is closed. Afterwards it
// does nothing.
func (d *Driver) background(f func(ctx context.Context)) (begun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.tasks.Go(func() { f(d.ctx) })
	}
	return !d.closed
}

// failed makes an error of the client one of the driver.
func (d *Driver) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case d.ctx.Err() != nil:
		return errClosed
	case driver.IsPermanent(err):
		return err
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		return driver.Permanent(fmt.Errorf("zookeeper: %w (user and password of the URL, and the ACLs of the nodes: cdrw is needed on %s and below) (%s)",
			err, d.top(), doctor.Hint))
	}
	return err
}

func (d *Driver) lane(queue string) *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.lanes[queue]; q != nil {
		return q
	}
	if len(d.lanes) > 100_000 {
		clear(d.lanes)
	}
	q := &lane{name: queue, path: d.node(queue)}
	d.lanes[queue] = q
	return q
}

// place returns the path of something that is not a queue.
func (c *config) aside(parts ...string) string {
	p := c.root + "/" + reserved
	for _, part := range parts {
		p += "/" + part
	}
	return p
}

// lay makes a node and those above it. Queues are containers, which the server
// removes when they are empty.
func (d *Driver) lay(ctx context.Context, l *link, path string, container bool) error {
	var err error
	if container {
		err = l.Container(ctx, path, d.acl)
	} else {
		_, err = zk.Call(ctx, func() (string, error) { return l.Conn.Create(path, nil, zk.Persistent, d.acl) })
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
		if err := d.lay(ctx, l, above, container && len(above) > len(d.root)); err != nil {
			return err
		}
		return d.lay(ctx, l, path, container)
	}
	return err
}

func parent(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return ""
}

func hexID(session int64) string { return strconv.FormatUint(uint64(session), 16) }
