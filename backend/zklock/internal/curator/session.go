package curator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/recent"
	"github.com/interlock-go/interlock/internal/signals"
)

// session is the tickets of one session of ZooKeeper.
type session struct {
	d       *Driver
	l       *link
	zk      int64 // the session of ZooKeeper
	id      string
	ttl     time.Duration
	owner   string
	over    chan struct{}
	ctx     context.Context // ends with the session, or the driver
	cancel  context.CancelFunc
	once    sync.Once
	ending  sync.Once
	stop    func() // of listening
	signals *signals.Queue
	bell    chan struct{}  // of the keeper
	renewed atomic.Int64   // when Renew was last called: a driver.Instant
	post    string         // where demands for its tickets are put
	reading turn           // of post
	letters *zk.Watch      // of post
	visited driver.Instant // when ghosts were looked for; the keeper's

	mu       sync.Mutex
	places   map[string]*place // by ID of the ticket
	left     recent.IDs
	refused  recent.IDs // there were tickets of another kind
	unsent   recent.IDs // nothing was sent for them
	leaving  withdrawals
	listings map[*lane]*listings
}

// place is a ticket of this session.
type place struct {
	s   *session
	q   *lane
	req driver.Request

	slot func() // gives it back, once the request to make the node is answered

	// Guarded by session.mu.
	state    state
	n        name // as it is on the server; n.node is "" until that is known
	zxid     uint64
	view     *view         // of the line in front, as it was last seen
	near     bool          // few were in front, as it was last seen
	epoch    uint64        // the connection that view is of
	flight   chan struct{} // closed when the last try to create the node is over
	whole    bool          // it was granted alone, with all there was, and has all of that
	last     name          // the last exclusive ticket that was in front
	former   name          // the one that had gone when last was seen
	heir     bool          // the last exclusive holder may have died
	based    bool          // heir was found out when the ticket came
	agreed   bool          // no ticket in front is of another kind, nor will any be
	edition  edition       // of the queue's node, once nobody but this ticket leaves a mark there
	got      driver.Ticket
	since    driver.Instant // of the grant
	extended driver.Instant
	end      driver.Instant // of a ticket that is fixed or evicted
	evicted  bool
	fixed    bool
	kept     bool // it was given its end by Keep: its holder is done
	told     bool // that another waits
	doomed   bool // it is to be removed as soon as possible
	news     chan struct{}
	own      *zk.Watch // of its node
	await    turn      // of calls that find out where the ticket stands
	loan     loan
	round    uint64 // of a double barrier in Curator's layout that the ticket is in
}

type state uint8

const (
	joining state = iota // whether it stands is not known
	waiting
	held
	gone
)

// meta is the data of a ticket's node.
type meta struct {
	Owner string        `json:"owner"`
	Note  []byte        `json:"note,omitempty"`
	TTL   time.Duration `json:"ttl"` // nanoseconds
	Hold  bool          `json:"hold,omitempty"`

	// Of a node that has taken the place of an earlier one of the same ticket.
	Token  uint64 `json:"token,string,omitempty"` // that its holder was told
	Joined int64  `json:"joined,omitempty"`       // milliseconds
	Zxid   uint64 `json:"zxid,string,omitempty"`  // of its first node

	Leaving bool `json:"leaving,omitempty"` // of the member of a double barrier: it has left, and stays for others

	Lent uint64 `json:"lent,string,omitempty"` // of a lease: the transaction of the ticket
}

func newSession(ctx context.Context, d *Driver, l *link, o driver.SessionOptions) (*session, error) {
	zkid, ttl := l.State()
	if zkid == 0 {
		return nil, zk.ErrConnectionClosed
	}
	number := l.Number()
	s := &session{
		d: d, l: l, zk: zkid, ttl: ttl, owner: o.Owner,
		id:   fmt.Sprintf("%s.%d.%d", hexID(zkid), l.Proven(), number),
		over: make(chan struct{}), signals: signals.New(), bell: make(chan struct{}, 1), reading: make(turn, 1),
		places: map[string]*place{}, listings: map[*lane]*listings{}, left: recent.IDs{Span: ttl}, refused: recent.IDs{Span: ttl},
		unsent: recent.IDs{Span: ttl},
	}
	s.ctx, s.cancel = context.WithCancel(d.ctx)
	s.post = d.aside("post", hexID(zkid)+"-"+strconv.FormatUint(number, 10))
	s.stop = l.Listen(&zk.Listener{Connected: s.connected, Knows: s.knows, Disconnected: func() {
		s.signals.Add(driver.Doubt, "", "")
		ring(s.bell)
	}})
	if now, _ := l.State(); now != zkid {
		s.stop()
		s.cancel()
		return nil, zk.ErrConnectionClosed
	}
	err := s.openPost(ctx)
	if err == nil {
		err = d.resume(ctx, l)
	}
	if err != nil {
		s.stop()
		s.cancel()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		s.stop()
		s.cancel()
		return nil, errClosed
	}
	d.sessions[s] = struct{}{}
	ring(s.bell)        // to read post
	s.visited = d.Now() // a client that does not live long has no ghosts
	s.renewed.Store(int64(s.visited))
	d.tasks.Go(s.keep)
	d.tasks.Go(s.pulse)
	return s, nil
}

func (s *session) openPost(ctx context.Context) error {
	for range 5 {
		_, err := zk.Call(ctx, func() (string, error) {
			return s.l.Conn.Create(s.post, nil, zk.Ephemeral, s.d.acl)
		})
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.d.lay(ctx, s.l, parent(s.post), false); err == nil {
				continue
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		return nil
	}
	return zk.ErrNoNode
}

// connected hears of a connection that has a session.
func (s *session) connected(now int64, timeout time.Duration) {
	// A server may grant less than the one before, whose word proofs rely on.
	if now != s.zk || timeout < s.ttl {
		s.isOver()
		return
	}
	ring(s.bell)
}

func (s *session) isOver() {
	s.once.Do(func() { close(s.over); s.cancel() })
	ring(s.bell)
}

func (s *session) isEnded() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// usable reports why the session cannot be used.
func (s *session) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.d.ctx.Err() != nil {
		return errClosed
	}
	if s.isEnded() {
		return driver.ErrSession
	}
	return nil
}

// within ends a call's context with the session and the driver, too.
func (s *session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// failed makes an error of a call one of the session.
func (s *session) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e := s.usable(ctx); e != nil {
		return e
	}
	if errors.Is(err, zk.ErrSessionExpired) {
		s.isOver()
		return driver.ErrSession
	}
	return s.d.failed(err)
}

func (s *session) place(id string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[id]
}

func (p *place) path() string {
	if p.loan.fits {
		return p.q.leases.path + "/" + p.loan.nodes[0]
	}
	return p.q.path + "/" + p.n.node
}

func (p *place) meta() []byte {
	m := meta{Owner: p.s.owner, Note: p.req.Note, TTL: p.s.ttl, Hold: p.req.Hold > 0}
	if p.loan.begun {
		m.Joined, m.Lent = p.loan.since, p.zxid
	}
	b, _ := json.Marshal(m) // cannot fail
	return b
}

// forget ends the ticket here; s.mu is held.
func (p *place) forget() {
	if p.state == gone {
		return
	}
	p.state = gone
	delete(p.s.places, p.req.ID)
	p.s.left.Add(p.req.ID)
	p.s.l.Lighten(p.s.zk, p.weight())
	p.s.l.Ignore(p.own)
	close(p.news)
	p.news = make(chan struct{})
}

// changed wakes Await; s.mu is held.
func (p *place) changed() {
	close(p.news)
	p.news = make(chan struct{})
}

// Close ends the session. Its tickets go with the connection, or, if that is
// the program's, one by one.
func (s *session) Close(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.d.ctx.Err() != nil {
		return errClosed
	}
	if s.isEnded() {
		s.end()
		return driver.ErrSession
	}
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := s.holds(ctx); err != nil {
		return s.failed(limit, err)
	}
	if !s.l.Own {
		if err := s.abandon(ctx); err != nil {
			return s.failed(limit, err)
		}
	}
	s.end()
	return s.tidy(limit)
}

// holds gives an end to tickets with a Hold that are held, but that nobody has
// asked for since. What is for good concerns one of them, not the session: whoever asks for that is told.
func (s *session) holds(ctx context.Context) error {
	var unsure []*place
	s.mu.Lock()
	for _, p := range s.places {
		if p.state == waiting && p.req.Hold > 0 {
			unsure = append(unsure, p)
		}
	}
	s.mu.Unlock()
	for _, p := range unsure {
		err := p.await.take(ctx)
		if err != nil {
			return err
		}
		if p.known() == waiting {
			err = s.look(ctx, p)
		}
		p.await.give()
		if e := s.usable(ctx); e != nil {
			return e
		}
		if err != nil && !driver.IsPermanent(s.d.failed(err)) {
			return err
		}
	}
	return nil
}

// end frees what the session holds here.
func (s *session) end() { s.ending.Do(s.free) } // whoever comes second waits

func (s *session) free() {
	s.isOver()
	s.stop()
	s.d.mu.Lock()
	_, open := s.d.sessions[s]
	delete(s.d.sessions, s)
	counted := s.l.Exchanges()
	if open && s.l.Own {
		s.d.retired.Add(counted)
	}
	s.d.mu.Unlock()
	if open && s.l.Own {
		s.l.Close()
		s.d.retired.Add(s.l.Exchanges() - counted)
	}
	if open && !s.l.Own {
		s.clear(s.vacate)
	}
}

// vacate is abandon that is repeated as long as the session of ZooKeeper may go on.
func (s *session) vacate(ctx context.Context) {
	for {
		if now, _ := s.l.State(); now != 0 && now != s.zk {
			return
		}
		if err := s.abandon(ctx); err == nil {
			return
		}
		select {
		case <-time.After(s.ttl / 8):
		case <-ctx.Done():
			return
		}
	}
}

// clear runs what removes nodes that nobody waits for. Those on the program's connection
// would outlive the driver, which then goes on until they have gone with the session.
func (s *session) clear(f func(ctx context.Context)) {
	run := f
	if !s.l.Own {
		run = func(context.Context) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			stop := context.AfterFunc(s.d.ctx, func() { time.AfterFunc(2*s.ttl, cancel) })
			defer stop()
			f(ctx)
		}
	}
	if !s.d.background(run) {
		run(s.d.ctx)
	}
}

// abandon removes the session's nodes.
func (s *session) abandon(ctx context.Context) error {
	var places []*place
	s.mu.Lock()
	for _, p := range s.places {
		if !p.fixed {
			places = append(places, p)
		}
	}
	s.mu.Unlock()
	for _, p := range places {
		if err := s.quit(ctx, p, false); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	if err := s.l.Remove(ctx, s.post); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// turn is a mutex that heeds contexts.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
