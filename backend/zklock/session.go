package zklock

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
	"github.com/interlock-go/interlock/internal/recent"
)

// session is a session of ZooKeeper, or a part of the program's.
type session struct {
	store  *store
	row    exchange.Session
	l      *link
	zk     int64 // the session of ZooKeeper
	ttl    time.Duration
	ctx    context.Context // ends with the session, or the store
	cancel context.CancelFunc
	once   sync.Once
	freed  chan struct{} // closed when its connection is, too
	stop   func()        // of listening

	inbox   string    // the node where demands for its tickets are put
	reading zk.Turn   // of inbox
	letters *zk.Watch // of inbox; the turn guards it

	mu       sync.Mutex
	entries  map[string]*entry    // by ID of the ticket
	crowds   map[string]*zk.Watch // of queues in which tickets are held, by name
	renewed  driver.Instant       // when it was renewed last
	renewing int                  // calls that renew it
	sought   driver.Instant       // when ghosts were looked for
	buried   recent.IDs           // tickets that do not come back
	refused  recent.IDs           // there were tickets of another kind
}

// entry is what the client keeps of the node of a ticket, from before that is made until it is gone.
type entry struct {
	s      *session
	recipe recipe
	q      *queue // the line in which it stands
	j      exchange.Join
	turn   zk.Turn // of calls that find out where the ticket stands

	known // session.mu guards it
}

// now is what is known at this moment.
func (t *entry) now() known {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.known
}

// known is what is known of a ticket.
type known struct {
	state  exchange.State // Gone: it is not known whether it stands, unless it has ended
	ended  bool           // it is in no map any more
	flight chan struct{}  // closed when the last try to make the node is over
	key    *ticket        // as it is on the server; nil: not known
	zxid   uint64         // of its first node
	began  int64          // when that was made, in milliseconds; 0: it was not seen to wait
	agreed bool           // no ticket in front is of another kind, nor will any be
	front  int            // how many were in front, as was last seen
	heir   keys.Heir
	wait   *waiting

	// Of a holder.
	token     uint64
	inherited bool
	mark      mark
	wanted    bool // that another ticket waits is known
	since     driver.Instant
	own       *zk.Watch // of its node
	settled   *time.Timer
	revoked   bool

	// Its own end.
	end            driver.Instant
	stray, evicted bool
	fixed          bool
	until          int64         // of the node for which end is known
	hold           time.Duration // the fixed time that ends then
	ends           *time.Timer
}

// Begin makes a session. If its connection ends before that is done, another one is made, for as
// long as the first one might have taken: connections of short sessions end when a server is slow.
func (s *store) Begin(ctx context.Context, row exchange.Session) (exchange.Begun, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	for until := driver.Now().Add(s.servers.Patience); ; {
		o, err := s.begin(ctx, row)
		if err == nil {
			return exchange.Begun{TTL: o.ttl}, nil
		}
		if !errors.Is(err, zk.ErrConnectionClosed) || driver.Now() >= until {
			return exchange.Begun{}, err
		}
	}
}

const (
	minTTL = 100 * time.Millisecond // the client takes its limit for connecting from it
	maxTTL = 24 * 24 * time.Hour    // the protocol counts milliseconds in 31 bits
)

func (s *store) begin(ctx context.Context, row exchange.Session) (o *session, err error) {
	l := s.given
	if l == nil {
		l, err = s.dialled(ctx, min(max(row.TTL, minTTL), maxTTL))
	} else {
		err = l.Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && l.Own {
			l.Close()
			s.retired.Add(l.Exchanges())
		}
	}()
	id, ttl := l.State()
	if id == 0 {
		return nil, zk.ErrConnectionClosed
	}
	row.TTL = ttl
	now := driver.Now()
	o = &session{
		store: s, row: row, l: l, zk: id, ttl: ttl, freed: make(chan struct{}), reading: zk.NewTurn(), entries: map[string]*entry{}, crowds: map[string]*zk.Watch{},
		buried: recent.IDs{Span: ttl}, refused: recent.IDs{Span: ttl}, renewed: now, sought: now, // a client that does not live long has no ghosts
		inbox: s.aside("post", hexID(id)+"-"+strconv.FormatUint(l.Number(), 10)),
	}
	o.ctx, o.cancel = context.WithCancel(s.ctx)
	o.stop = l.Listen(&zk.Listener{Connected: o.connected, Disconnected: o.disconnected, Knows: func(id string) bool { return o.entry(id) != nil }})
	if err = o.openInbox(ctx); err == nil {
		err = s.resume(ctx, l)
	}
	if now, _ := l.State(); err == nil && now != id {
		err = zk.ErrConnectionClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.closed {
		err = errClosed
	}
	if err != nil {
		o.stop()
		o.cancel()
		return nil, err
	}
	s.sessions[row.ID] = o
	s.tasks.Go(func() { o.readInbox(o.ctx) })
	s.tasks.Go(o.pulse)
	return o, nil
}

// pulse keeps the session proven, as long as it is renewed.
func (s *session) pulse() {
	p := zk.Pulse{TTL: s.ttl, Path: s.store.top(), Renewed: s.lastRenewed, Holding: s.holding, Over: s.end}
	if !s.l.Own {
		p.Over = nil
	}
	p.Expired = s.end
	s.l.Pulse(s.ctx, p)
}

func (s *session) lastRenewed() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewing > 0 {
		return driver.Now()
	}
	return s.renewed
}

func (s *session) holding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.entries {
		if t.state == exchange.Held && !t.fixed {
			return true
		}
	}
	return false
}

// proof is the local time from which its tickets are proven, those without an end of their own: the session's end takes
// them, and so does this client if the session is not renewed. The mutex is held.
func (s *session) proof() driver.Instant { return min(s.l.Proven(), s.renewed) }

// connected hears of a connection that has a session.
func (s *session) connected(now int64, timeout time.Duration) {
	// A server may grant less than the one before, whose word proofs rely on.
	if now != s.zk || timeout < s.ttl {
		s.end()
		return
	}
	s.background(s.reconnected)
}

// reconnected is called when the connection is there again. All that was watched may have changed.
func (s *session) reconnected(ctx context.Context) {
	s.readInbox(ctx)
	s.mu.Lock()
	var held, waiters []*entry
	for _, t := range s.entries {
		switch t.state {
		case exchange.Held:
			held = append(held, t)
		case exchange.Waiting:
			waiters = append(waiters, t)
		}
	}
	s.mu.Unlock()
	for _, t := range waiters {
		t.mayHold()
	}
	for _, t := range held {
		s.watchHolder(ctx, t)
	}
}

func (s *session) disconnected() {
	s.store.tell(exchange.Event{Type: exchange.InDoubt, ID: s.row.ID})
}

// tell passes an event on.
func (s *store) tell(ev exchange.Event) {
	s.mu.Lock()
	receive := s.receive
	s.mu.Unlock()
	if receive != nil {
		receive(ev)
	}
}

// end is called when the session is over. Its connection is closed.
func (s *session) end() {
	s.once.Do(func() {
		s.cancel()
		if !s.store.background(func(context.Context) { s.free() }) {
			return
		}
		s.store.tell(exchange.Event{Type: exchange.SessionOver, ID: s.row.ID})
	})
}

func (s *session) isOver() bool { return s.ctx.Err() != nil }

// live finds a session that is not over.
func (s *store) live(id string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.sessions[id]; o != nil && !o.isOver() {
		return o, nil
	}
	if s.closed {
		return nil, errClosed
	}
	return nil, driver.ErrSession
}

// in makes an exchange of a session.
func (s *store) in(ctx context.Context, id string, f func(context.Context, *session) error) error {
	o, err := s.live(id)
	if err != nil {
		return err
	}
	within, cancel := o.within(ctx)
	defer cancel()
	return o.failed(ctx, f(within, o))
}

// within ends a call's context with the session and the store, too.
func (s *session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return endsWith(ctx, s.ctx)
}

// background runs a task until the session is over.
func (s *session) background(f func(ctx context.Context)) {
	s.store.background(func(context.Context) { f(s.ctx) })
}

// inTurn has a task of a ticket wait for the calls of that ticket that came before.
func (t *entry) inTurn(f func(ctx context.Context)) {
	t.s.background(func(ctx context.Context) {
		if t.turn.Take(ctx) == nil {
			defer t.turn.Give()
			f(ctx)
		}
	})
}

// failed makes an error of a call one of the session.
func (s *session) failed(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case s.store.ctx.Err() != nil:
		return errClosed
	case errors.Is(err, zk.ErrSessionExpired):
		s.end()
		return driver.ErrSession
	case s.isOver():
		return driver.ErrSession
	}
	return err
}

// free frees what the session has here. Its tickets go with the connection, or, if that is the program's, one by one.
func (s *session) free() {
	s.cancel()
	st := s.store
	st.mu.Lock()
	if st.sessions[s.row.ID] != s {
		st.mu.Unlock()
		<-s.freed
		return
	}
	delete(st.sessions, s.row.ID)
	counted := s.l.Exchanges()
	if s.l.Own {
		st.retired.Add(counted)
	}
	st.mu.Unlock()
	defer close(s.freed)
	s.stop()
	if s.l.Own {
		s.l.Close()
		st.retired.Add(s.l.Exchanges() - counted)
		return
	}
	s.clear(s.vacate)
}

// clear runs what removes nodes on the program's connection. They would outlive the store, which then goes on until
// they have gone with the session of ZooKeeper.
func (s *session) clear(f func(ctx context.Context)) {
	run := func(context.Context) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stop := context.AfterFunc(s.store.ctx, func() { time.AfterFunc(2*s.ttl, cancel) })
		defer stop()
		f(ctx)
	}
	if !s.store.background(run) {
		run(s.store.ctx)
	}
}

// vacate removes the session's nodes, as long as the session of ZooKeeper may go on.
func (s *session) vacate(ctx context.Context) {
	retry(ctx, s.ttl/8, func() error {
		if now, _ := s.l.State(); now != 0 && now != s.zk {
			return nil
		}
		return s.abandon(ctx, s.l)
	})
}

// abandon removes the session's nodes, by any connection.
func (s *session) abandon(ctx context.Context, l *link) error {
	s.mu.Lock()
	var all []*entry
	for _, t := range s.entries {
		if !t.fixed {
			all = append(all, t)
		}
	}
	s.mu.Unlock()
	for _, t := range all {
		if err := t.recipe.abandon(ctx, l); err != nil {
			return err
		}
		t.forgotten()
	}
	return zk.Unless(l.Remove(ctx, s.inbox), zk.ErrNoNode)
}

// End ends a session. If its connection was lost just then, no server knows of the end: the tickets would stand
// until the timeout. They are removed over another connection, also when the caller does not wait for it any more.
func (s *store) End(ctx context.Context, row exchange.Session, _ []exchange.Leave) ([]string, error) {
	o, err := s.live(row.ID)
	if errors.Is(err, driver.ErrSession) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !o.l.Own {
		if err := o.abandon(ctx, o.l); err != nil {
			return nil, o.failed(ctx, err)
		}
	}
	o.once.Do(o.cancel)
	o.free()
	if !o.l.Own || o.l.Closed() {
		return nil, nil
	}
	done := make(chan struct{})
	if !s.background(func(ctx context.Context) {
		defer close(done)
		retry(ctx, again, func() error {
			l, err := s.link(ctx)
			if err == nil {
				err = o.abandon(ctx, l)
			}
			return err
		})
	}) {
		return nil, errClosed
	}
	select {
	case <-done:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// again is how soon tasks in the background try again after an error.
const again = 50 * time.Millisecond

func (s *session) entry(id string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[id]
}

// forget ends the ticket here; s.mu is held.
func (t *entry) forget() {
	if !t.ended {
		t.s.buried.Add(t.j.ID)
		t.drop()
	}
}

// forgotten is forget for who does not hold s.mu.
func (t *entry) forgotten() {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.forget()
}

// drop frees what the entry has here; s.mu is held.
func (t *entry) drop() {
	delete(t.s.entries, t.j.ID)
	t.state, t.ended = exchange.Gone, true
	t.s.l.Lighten(t.s.zk, t.s.store.weighs(t.q, &t.j))
	t.s.l.Ignore(t.own)
	t.unwatch()
	t.recipe.dropped()
	for _, timer := range []*time.Timer{t.settled, t.ends} {
		if timer != nil {
			timer.Stop()
		}
	}
}

func (t *entry) path() string { return t.q.path + "/" + t.key.node }

// meta is the data of a ticket's node.
type meta struct {
	Owner string        `json:"owner"`
	Note  []byte        `json:"note,omitempty"`
	TTL   time.Duration `json:"ttl"` // nanoseconds
	Hold  bool          `json:"hold,omitempty"`

	// Of a node that has taken the place of an earlier one of the same ticket.
	Token  uint64        `json:"token,string,omitempty"` // that its holder was told
	Joined int64         `json:"joined,omitempty"`       // milliseconds
	Fixed  time.Duration `json:"fixed,omitempty"`        // how long the fixed time is that ends with it
	Zxid   uint64        `json:"zxid,string,omitempty"`  // of its first node
	Lent   uint64        `json:"lent,string,omitempty"`  // the same, of a lease

	Revoked bool `json:"revoked,omitempty"` // of one with a fixed end: its session may be gone, and another one watch it
}

func (t *entry) meta() meta {
	return meta{Owner: t.s.row.Owner, Note: t.j.Note, TTL: t.s.ttl, Hold: t.j.Hold > 0}
}

func (m meta) encode() []byte {
	b, _ := json.Marshal(m) // cannot fail
	return b
}

// decode reads the data of a ticket's node; ok is false if it is another
// library's, or says that its holder was told what is no token.
func decode(data []byte) (m meta, ok bool) {
	if !strings.HasPrefix(string(data), "{") || json.Unmarshal(data, &m) != nil || m.Token >= driver.MaxToken {
		return meta{}, false
	}
	return m, true
}

// joined is the transaction of a ticket's first node, which is not later than the transaction of the
// present one, whatever its data say.
func joined(c zk.Content) uint64 {
	zxid := uint64(c.Stat.Czxid)
	if m, ok := decode(c.Data); ok && m.Lent != 0 {
		return min(m.Lent, zxid)
	} else if ok && m.Joined != 0 && m.Zxid != 0 {
		return min(m.Zxid, zxid)
	}
	return zxid
}

// ticketOf is the ticket that a Join asks for.
func (c *config) ticketOf(j *exchange.Join) *ticket {
	l := c.names
	if j.Kind != driver.Election {
		l.latch = false
	}
	t := &ticket{layout: l, Key: keys.Key{ID: j.ID, Kind: j.Kind, Units: j.Units, Capacity: j.Capacity}}
	if c.lends(j.Kind) {
		t.Kind, t.Units, t.wish = lockOfLeases, j.Capacity, j.Units
	}
	return t
}
