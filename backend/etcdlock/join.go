package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Join makes the key of a ticket, and reads the queue if that is short. What is to be known of a longer one it reads
// afterwards, since a transaction that sorts a queue would hold up the server.
func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	return s.join(ctx, j, nil)
}

func (s *store) join(ctx context.Context, j exchange.Join, of *shared) (st exchange.Status, err error) {
	t := &ticket{queue: j.Queue, id: j.ID, note: j.Note, lease: leaseOf(j.Session.ID), row: row{
		ID: j.ID, Kind: j.Kind, Units: j.Units, Capacity: j.Capacity, Hold: j.Hold, ReportDeath: j.ReportDeath, Since: time.Now(),
		Session: j.Session.ID, Owner: j.Session.Owner, Mailbox: j.Session.Mailbox, TTL: j.Session.TTL,
	}}
	if j.NoWait && !j.Retry {
		if err := s.free(ctx, t); err != nil {
			return st, err
		}
	}
	if j.Retry {
		if st, found, err := s.again(ctx, j); found || err != nil {
			return st, err
		}
	}
	got, found, err := s.put(ctx, j.Session, t, of)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return st, driver.ErrSession
	case err != nil:
		return st, err
	case found:
		return s.joined(ctx, j, 0)
	}
	t.created, t.changed = got.Header.Revision, got.Header.Revision
	read := func(i int) *pb.RangeResponse { return got.Responses[i].GetResponseRange() }
	q := &queue{read: t.created}
	q.kept, err = readKept(read(1).Kvs)
	if s.readLine(&q.line, t.queue, read(0)); !q.whole {
		var own kvs // the ticket may have been removed since, and those in front may have left
		stands := func(b *batch) {
			b.get(t.key, func(all kvs) { q.read, own = b.revision, all })
		}
		var wrong error
		if s.isFar(t, &q.line, read(0).Count) {
			wrong = s.readFar(ctx, q, t, stands)
		} else {
			wrong = s.readFront(ctx, &q.line, t, perFront, stands, func(b *batch) {
				if t.Units == t.Capacity {
					b.add(s.inFront(t.queue, t.created), func(r *pb.RangeResponse) { q.last = s.readInFront(t.queue, r) })
				}
			})
		}
		err = errors.Join(err, wrong)
		switch {
		case wrong != nil && !driver.IsPermanent(wrong):
			return st, wrong
		case len(own) == 0 || own[0].CreateRevision != t.created:
			return st, s.gone(ctx, j.Session)
		case own[0].ModRevision != t.changed:
			return s.joined(ctx, j, 0)
		}
	}
	all, wrong := readKept(read(2).Kvs)
	token := token(t, q.floor, all.floor)
	if err = errors.Join(err, wrong); err == nil && token >= driver.MaxToken {
		err = exchange.ErrTokens
	}
	if t.ReportDeath {
		q.mark = readMark(read(4).Kvs)
	}
	if err == nil && slices.ContainsFunc(q.tickets, func(o *ticket) bool { return o.id == t.id && o.key != t.key }) {
		err = driver.ErrGone // it is the ID of a ticket of another session
	}
	if err == nil {
		err = s.agree(ctx, &q.line, t)
	}
	if err == nil {
		st, err = s.stands(ctx, j, t, q, token)
	}
	if driver.IsPermanent(err) { // the ticket must not stand
		stands := clientv3.Compare(clientv3.CreateRevision(t.key), "=", t.created)
		if _, err := s.change(ctx, []clientv3.Cmp{stands}, []clientv3.Op{clientv3.OpDelete(t.key), clientv3.OpDelete(s.demand(t))}, nil); err != nil {
			return st, err
		}
	}
	return st, err
}

// put makes the key of a ticket, unless the ticket is found, or was left. Its seat may be taken by another
// ticket; then the key has its ID. A change that comes late must not make a second key: so it expects that
// both keys are as they were.
func (s *store) put(ctx context.Context, o exchange.Session, t *ticket, of *shared) (got *clientv3.TxnResponse, found bool, err error) {
	seat, own, tombstone := s.seat(o, t.queue, t.id), s.ticket(t.queue, t.id), s.tombstone(t.id)
	var mark []clientv3.Op // others are not told whether they inherit
	if t.ReportDeath {
		mark = []clientv3.Op{clientv3.OpGet(s.mark(t.queue))}
	}
	for range attempts * attempts {
		s.mu.Lock()
		by := s.seats[seat]
		s.mu.Unlock()
		t.key = own
		if by.id == "" || by.id == t.id { // if it is there itself, it is found
			t.key, by = seat, sitter{}
		}
		got, err = s.changeIn(ctx, of,
			[]clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(seat), "=", by.created), clientv3.Compare(clientv3.CreateRevision(own), "=", 0),
				clientv3.Compare(clientv3.CreateRevision(tombstone), "=", 0),
			},
			append([]clientv3.Op{
				s.front(t.queue, 0, perJoin, false), clientv3.OpGet(s.floor(t.queue)), clientv3.OpGet(s.floor("")),
				clientv3.OpPut(t.key, t.value(), clientv3.WithLease(t.lease)), // after that the ticket would be among those in front
			}, mark...),
			[]clientv3.Op{clientv3.OpGet(tombstone), clientv3.OpGet(own), clientv3.OpGet(seat)})
		if err != nil {
			return nil, false, err
		}
		of = nil
		if got.Succeeded {
			if t.key == seat {
				s.sits(seat, sitter{t.id, got.Header.Revision})
			}
			return got, false, nil
		}
		read := func(i int) kvs { return got.Responses[i].GetResponseRange().Kvs }
		ref := exchange.Ref{Queue: t.queue, ID: t.id}
		switch {
		case len(read(0)) > 0:
			return nil, false, driver.ErrGone
		case len(read(1)) > 0, s.readOne(ref, read(2)) != nil:
			return nil, true, nil
		case len(read(2)) > 0:
			s.sits(seat, sitter{s.readTicket(t.queue, read(2)[0]).id, read(2)[0].CreateRevision})
		default:
			s.sits(seat, sitter{})
		}
	}
	return nil, false, errors.New("the seat of the ticket was changed again and again")
}

// sitter is a ticket that probably has a seat.
type sitter struct {
	id      string
	created int64
}

// sits notes which ticket has a seat; the zero value: none.
func (s *store) sits(seat string, by sitter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seats) >= maxSeats {
		clear(s.seats)
	}
	if s.seats[seat] = by; by.id == "" {
		delete(s.seats, seat)
	}
}

// maxSeats bounds what is remembered: nobody says that a ticket has ended by itself. What is forgotten costs the
// next Join that finds its seat taken one exchange.
const maxSeats = 10000

// stands says how a new ticket stands, and tells holders of the first waiter.
func (s *store) stands(ctx context.Context, j exchange.Join, t *ticket, q *queue, token uint64) (st exchange.Status, err error) {
	p := q.place(t)
	for ; !p.known || !p.held && !p.all && !q.needsAll(t); p = q.place(t) {
		if err := s.lengthen(ctx, &q.line, t.queue); err != nil {
			return st, err
		}
	}
	st = s.status(t, p)
	switch {
	case p.held:
		// One behind it may have read the queue between, and waits for its key to be written.
		waited := q.at > t.created && (!q.whole || slices.ContainsFunc(q.tickets, func(o *ticket) bool { return o.created > t.created }))
		return st, s.granted(ctx, j.Session, t, q.marked(t), token, waited, &st)
	case j.NoWait:
		return st, driver.ErrBusy
	case p.all:
		s.watchWaiter(t, p, q.read)
	case q.last != nil:
		s.watchWaiter(t, place{before: []*ticket{q.last}, far: q.far, line: &q.line}, q.read)
	default:
		if err := s.watchDeep(ctx, []*seen{{0, t, p}}, q.read); err != nil {
			return st, err
		}
	}
	if p.first {
		s.want(ctx, p.before)
	}
	return st, nil
}

// agree returns an error if a ticket does not say the number of permits that is in force. If none is, that
// goes for one of another kind or capacity than the first one of this library in its queue. Others that are
// so, and wait, are removed: most likely they find that out just now, and they keep nobody out.
func (s *store) agree(ctx context.Context, ln *line, t *ticket) error {
	for range attempts {
		for ln.number.Unset && len(ln.tickets) == 0 && !ln.whole { // there are keys of queues below
			if err := s.lengthen(ctx, ln, t.queue); err != nil {
				return err
			}
		}
		i := slices.IndexFunc(ln.tickets, func(o *ticket) bool { return !o.foreign && o.id != t.id })
		switch {
		case ln.odd(t):
			return driver.ErrMismatch
		case ln.permits() > 0 || i < 0 || !slices.ContainsFunc(ln.tickets, t.odd):
			return nil
		}
		first, removed := ln.tickets[i], func(o *ticket) bool { return t.odd(o) && o.created > ln.number.Perhaps }
		switch {
		case t.odd(first):
			return driver.ErrMismatch
		case !slices.ContainsFunc(ln.tickets, removed): // by a number that is not known they may hold
			return nil
		}
		var ops []clientv3.Op
		stand := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(first.key), "=", first.created)}
		if t.Kind == driver.Semaphore { // by a number that is set by then they may hold
			stand = append(stand, clientv3.Compare(clientv3.ModRevision(s.floor(t.queue)), "=", ln.written))
		}
		for _, o := range ln.tickets {
			if removed(o) && len(ops) < maxOps {
				ops = append(ops, clientv3.OpDelete(o.key))
				stand = append(stand, clientv3.Compare(clientv3.CreateRevision(o.key), "=", o.created))
			}
		}
		got, err := s.change(ctx, stand, ops, nil)
		if err != nil {
			return err
		}
		if got.Succeeded {
			ln.tickets = slices.DeleteFunc(ln.tickets, removed)
			return nil
		}
		if err := s.readFront(ctx, ln, t, perPage); err != nil {
			return err
		}
	}
	return nil // they are in front
}

// odd: another ticket of this library is of another kind or capacity.
func (t *ticket) odd(o *ticket) bool {
	return !o.foreign && o.id != t.id && (o.Kind != t.Kind || o.Capacity != t.Capacity)
}

// readFront reads a line anew for a ticket that joins, with what more is asked for. What the queue keeps is
// to be of the same revision if it has permits.
func (s *store) readFront(ctx context.Context, ln *line, t *ticket, most int64, more ...func(*batch)) (err error) {
	b := s.batch()
	*ln = line{kept: ln.kept}
	b.add(s.front(t.queue, 0, most, true), func(r *pb.RangeResponse) {
		s.readLine(ln, t.queue, r)
		ln.asOf(b.revision)
	})
	if t.Kind == driver.Semaphore {
		b.get(s.floor(t.queue), func(all kvs) { ln.kept, err = readKept(all) })
	}
	for _, ask := range more {
		ask(b)
	}
	return errors.Join(b.run(ctx), err)
}

// free returns an error if a ticket that were joined now would have to wait, or was left before.
func (s *store) free(ctx context.Context, t *ticket) error {
	var ln line
	left := false
	if err := s.readFront(ctx, &ln, t, perFront, func(b *batch) { b.get(s.tombstone(t.id), func(all kvs) { left = len(all) > 0 }) }); err != nil {
		return err
	}
	if left {
		return driver.ErrGone
	}
	after := *t
	after.created = math.MaxInt64
	if err := s.agree(ctx, &ln, &after); err != nil {
		return err
	}
	for p := ln.place(&after); !p.held; p = ln.place(&after) {
		if p.known {
			return driver.ErrBusy
		}
		if err := s.lengthen(ctx, &ln, t.queue); err != nil {
			return err
		}
	}
	return nil
}

// again is of a Join that may have arrived before. It asks for the ticket first: to make the change once more
// would cost a cluster that is overwhelmed another proposal, for which all others wait.
func (s *store) again(ctx context.Context, j exchange.Join) (st exchange.Status, found bool, err error) {
	b, left, ref := s.batch(), false, exchange.Ref{Queue: j.Queue, ID: j.ID}
	var there *ticket
	var ln line
	var keys int64
	var some *pb.RangeResponse
	b.get(s.tombstone(j.ID), func(all kvs) { left = len(all) > 0 })
	for _, key := range s.keys(j.Session, ref) {
		b.get(key, func(all kvs) { there = cmp.Or(s.readOne(ref, all), there) })
	}
	b.get(s.floor(j.Queue), func(all kvs) { ln.kept, _ = readKept(all) }) // garbage counts as a number
	b.add(s.front(j.Queue, 0, perJoin, false), func(r *pb.RangeResponse) {
		s.readLine(&ln, j.Queue, r)
		keys = r.Count
	})
	b.add(s.sample(j.Queue, s.seat(j.Session, j.Queue, j.ID)), func(r *pb.RangeResponse) { some = r })
	switch err := b.run(ctx); {
	case err != nil:
		return st, false, err
	case left:
		return st, false, driver.ErrGone
	case there == nil || !there.of(j.Session):
		return st, false, nil
	}
	if s.isFar(there, &ln, keys) {
		if last, _ := s.someInFront(there, &ln, some); last != nil {
			s.watchWaiter(there, place{before: []*ticket{last}, far: true}, b.revision)
		}
	}
	st, err = s.joined(ctx, j, there.tag(place{}))
	return st, true, err
}

// joined is of a Join whose ticket is there, with what is known of its tag.
func (s *store) joined(ctx context.Context, j exchange.Join, tag uint64) (st exchange.Status, err error) {
	all, err := s.Look(ctx, j.Session, []exchange.Ref{{Queue: j.Queue, ID: j.ID, Tag: tag}})
	if err == nil && all[0].State == exchange.Gone {
		err = driver.ErrGone
	}
	if err != nil {
		return st, err
	}
	return all[0], nil
}

// want tells holders that there is a waiter. If it fails, the next heartbeat of each says so.
func (s *store) want(ctx context.Context, holders []*ticket) {
	var ops []clientv3.Op
	for i, t := range holders {
		if !t.foreign {
			ops = append(ops, s.demands(t, driver.Wanted))
		}
		if len(ops) == maxOps || i == len(holders)-1 && len(ops) > 0 {
			if _, err := s.change(ctx, nil, ops, nil); err != nil && len(ops) > 1 {
				for _, op := range ops { // one of them has just left, with its lease
					_, _ = s.change(ctx, nil, []clientv3.Op{op}, nil)
				}
			}
			ops = nil
		}
	}
}
