package zklock

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// queue is what is known of a queue.
type queue struct {
	name, path string

	mu       sync.Mutex
	front    int                    // how many stood in front of the last ticket that was looked at
	seen     bool                   // the data of the node were read
	foreign  bool                   // they belong to another program
	denied   bool                   // they may not be written
	stands   bool                   // the node was there
	listings map[*session]*listings // that are under way
	parse    func(nodes []string) *line
	leases   *queue // of locks
	locks    *queue // of a semaphore in the layout of Curator; store.mu guards it
}

func (s *store) queue(name string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[name]; q != nil {
		return q
	}
	if len(s.queues) > 100_000 {
		clear(s.queues)
	}
	q := &queue{name: name, path: s.node(name), parse: parseLine, listings: map[*session]*listings{}}
	s.queues[name] = q
	return q
}

// crowded: a list of the queue costs more than a round trip.
func (q *queue) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.front > crowdLine
}

// listing is a list of a queue's children.
type listing struct {
	line
	number permits
	zk.Children
}

// errStale: a list has to be read again.
var errStale = errors.New("zookeeper: the list of tickets is older than the ticket")

// anew repeats a look at a list for as long as that is too old.
func anew(look func() error) error {
	for {
		if err := look(); !errors.Is(err, errStale) {
			return err
		}
	}
}

// stale is the error of a request to a node that a list has. If that is gone, the ticket has left, or has another one.
// It may have other data than were read.
func stale(err error) error {
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return errStale
	}
	return err
}

// read lists a queue, and settles it: it removes the tickets whose fixed end has passed, and a number of permits that
// is over. It is ErrNoNode if the queue has no node.
func (s *store) read(ctx context.Context, l *link, q *queue) (f *listing, err error) {
	err = anew(func() error {
		if f, err = s.list(ctx, l, q, false); err != nil {
			return err
		}
		return s.settle(ctx, l, q, f)
	})
	return f, err
}

func (s *store) list(ctx context.Context, l *link, q *queue, watch bool) (*listing, error) {
	c, err := l.List(ctx, q.path, watch)
	if err != nil {
		return nil, err
	}
	return listingOf(q, c), nil
}

func listingOf(q *queue, c zk.Children) *listing {
	f := &listing{line: *q.parse(c.Names), number: permitsIn(c.Names), Children: c}
	f.Number = f.number.Number
	return f
}

// readAny is read that finds no tickets if the queue has no node.
func (s *store) readAny(ctx context.Context, l *link, q *queue) (*listing, error) {
	f, err := s.read(ctx, l, q)
	if errors.Is(err, zk.ErrNoNode) {
		return &listing{line: line{Whole: true}}, nil
	}
	return f, err
}

// settle removes what is over. It is errStale if the queue is to be listed again: then other tickets may have been
// removed meanwhile.
func (s *store) settle(ctx context.Context, l *link, q *queue, f *listing) error {
	if f.over() { // it leaves a bell that stands alone: another number may have come by now
		_, err := l.Multi(ctx, removals(q, f.Names)...)
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			err = errStale
		}
		return err
	}
	var now int64
	ended := 0
	for i, t := range f.Keys {
		if t.until != 0 && now == 0 {
			var err error
			if now, _, _, err = s.clock(ctx, l); err != nil {
				return err
			}
		}
		if t.until == 0 || t.until > now {
			continue
		}
		m := mark{leaves: t.kept && f.NeedsAll(t) && ended == i, version: freshVersion}
		if err := stale(s.take(ctx, l, q, t, m)); err != nil {
			return err // it may have got another end meanwhile
		}
		ended++
	}
	if ended > 0 {
		return errStale
	}
	return nil
}

// Settle is what a waiter asks for when a ticket in front of it may have ended.
func (s *store) Settle(ctx context.Context, name string) (bool, error) {
	return false, s.with(ctx, func(ctx context.Context, l *link) error {
		_, err := s.readAny(ctx, l, s.queue(name))
		return err
	})
}

// The data of a queue's node are this letter and the number of the last exclusive ticket that was held and left cleanly.
const markLetter = 'R'

// mark is what a holder leaves there.
type mark struct {
	leaves  bool // it was granted alone, with all there was, and has all of that; else it leaves none
	version version
}

func markOf(p *keys.Place[*ticket], v version) mark {
	return mark{p.Exclusive, v}
}

func (m mark) when(clean bool) mark {
	m.leaves = m.leaves && clean
	return m
}

func (m mark) data(t *ticket) []byte {
	return strconv.AppendInt([]byte{markLetter}, int64(number(t.Order)), 10)
}

// late: a ticket came after the number of permits.
func (f *listing) late(t *ticket) bool {
	return f.number.node != "" && f.number.node != bell && t.Order > f.number.Set
}

// marked reads the mark.
func marked(data []byte) (of int64, ok bool) {
	if len(data) < 2 || data[0] != markLetter {
		return 0, false
	}
	n, err := strconv.ParseInt(string(data[1:]), 10, 32)
	if err != nil {
		return 0, false
	}
	return order(int32(n)), true
}

// learn notes whose the data of the node are, and reads the mark; ours: they are this package's.
func (q *queue) learn(data []byte) (mark int64, ok, ours bool) {
	mark, ok = marked(data)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen, q.foreign = true, !ok && len(data) > 0
	return mark, ok, !q.foreign
}

// made returns how many children a node has ever had, which is the number that
// the next sequential one gets. ZooKeeper reports twice that, less the children
// that there are. It counts in 31 bits here: the next one wraps around.
func made(stat *zk.Stat) uint32 {
	return (uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2
}

// in reports whether what was read of the queue is as new as the ticket.
func (t *ticket) in(stat *zk.Stat) bool {
	return (made(stat)-uint32(number(t.Order))-1)&(1<<31-1) < 1<<30
}

// version is the version of a queue's node whose data may be overwritten, once no client but this one leaves a mark there.
type version int32

const (
	// anyVersion: no one has looked since the ticket was granted. What another program has
	// written since is lost: to look first would take another round trip for each
	// hand-over.
	anyVersion version = -1
	// freshVersion: the one that is there when it is read.
	freshVersion version = -2
)

// leaves is the mark that a ticket may leave.
func (q *queue) leaves(m mark) mark {
	q.mu.Lock()
	defer q.mu.Unlock()
	m = m.when(!q.foreign && !q.denied)
	if !q.seen {
		m.version = freshVersion
	}
	return m
}

// removal are the operations that remove a ticket's node, and leave a mark.
func (q *queue) removal(t *ticket, m mark) (ops []any) {
	if m.leaves {
		ops = append(ops, &zk.Write{Path: q.path, Data: m.data(t), Version: int32(m.version)})
	}
	return append(ops, &zk.Delete{Path: q.path + "/" + t.node, Version: -1})
}

// take removes a ticket's node, and leaves a mark unless the data there are not ours.
func (s *store) take(ctx context.Context, l *link, q *queue, t *ticket, m mark, more ...any) error {
	m = q.leaves(m)
	for tries := 0; m.leaves && tries < 5; tries++ {
		if m.version == freshVersion {
			c, err := l.Get(ctx, q.path)
			if err != nil {
				return err
			}
			if _, _, ours := q.learn(c.Data); !ours {
				break
			}
			m.version = version(c.Stat.Version)
		}
		_, err := l.Multi(ctx, append(more, q.removal(t, m)...)...)
		if errors.Is(err, zk.ErrNoAuth) {
			q.mu.Lock()
			q.denied = true
			q.mu.Unlock()
			break
		}
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
		m.version = freshVersion
	}
	return l.Remove(ctx, q.path+"/"+t.node)
}

// clock reads the clock of the server, in milliseconds, between sent and by. After this write the server is up to date.
func (s *store) clock(ctx context.Context, l *link) (now int64, sent, by driver.Instant, err error) {
	sent = driver.Now()
	stat, err := s.tick(ctx, l)
	if err != nil {
		return 0, 0, 0, err
	}
	return stat.Mtime, sent, driver.Now(), nil
}

// tick writes the clock: its stat has the present time, and the present transaction.
func (s *store) tick(ctx context.Context, l *link) (stat *zk.Stat, err error) {
	path := s.aside("clock")
	err = s.laid(ctx, l, path, false, func() error {
		stat, err = l.Set(ctx, path, nil, -1)
		return err
	})
	return stat, err
}

// ceil returns milliseconds.
func ceil(d time.Duration) int64 { return int64((d+time.Millisecond-1)/time.Millisecond) + 1 }

// listings are the lists of a queue that run and are due for one session, each for all tickets that have asked
// for one before it began: when a writer leaves, thousands of readers ask at once.
type listings struct {
	due   *shared
	hurry chan struct{} // rung by a ticket near the front
}

type shared struct {
	done chan struct{}
	*listing
	err error
}

// list has the queue listed, not before it is called.
func (s *session) list(q *queue, hurry bool) (l *shared) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.listings[s]
	if r == nil || r.due == nil {
		l = &shared{done: make(chan struct{})}
	}
	switch {
	case r == nil:
		r = &listings{hurry: make(chan struct{}, 1)}
		q.listings[s] = r
		go s.share(q, r, l)
	case l != nil:
		r.due = l
	}
	if hurry {
		ring(r.hurry)
	}
	return cmp.Or(l, r.due)
}

// wait is zk.ErrNoNode if the queue has no node.
func (l *shared) wait(ctx context.Context) (*listing, error) {
	select {
	case <-l.done:
		return l.listing, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *session) share(q *queue, r *listings, l *shared) {
	for l != nil {
		began := driver.Now()
		if l.listing, l.err = s.store.read(s.ctx, s.l, q); l.err != nil && !errors.Is(l.err, zk.ErrNoNode) {
			l.err = s.failed(context.Background(), l.err)
		}
		close(l.done)
		if l.err == nil && len(l.Keys) > crowdLine {
			s.spare(r, driver.Now().Sub(began))
		}
		q.mu.Lock()
		l, r.due = r.due, nil
		if l == nil {
			delete(q.listings, s)
		}
		q.mu.Unlock()
	}
}

const (
	crowdLine = 100 // so long is a line whose list costs more than a round trip
	nearFront = 16  // a ticket with fewer in front may soon be held
)

// spare keeps from listing a long line again for as long as that took, unless a ticket near the
// front asks: all that ask meanwhile share the next list.
func (s *session) spare(r *listings, took time.Duration) {
	timer := time.NewTimer(min(took, s.ttl/20))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.hurry:
	case <-s.ctx.Done():
	}
}

// ring wakes a goroutine, which then looks at everything.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
