package etcdlock

import (
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
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// Join makes the key of a ticket, and reads the queue if that is short. What is to be known of a longer one it reads
// afterwards, since a transaction that sorts a queue would hold up the server.
func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	return s.join(ctx, j, nil)
}

func (s *store) join(ctx context.Context, j exchange.Join, of *shared) (st exchange.Status, err error) {
	t := &ticket{queue: j.Queue, note: j.Note, lease: leaseOf(j.Session.ID), row: row{
		Key:  keys.Key{ID: j.ID, Kind: j.Kind, Units: j.Units, Capacity: j.Capacity},
		Hold: j.Hold, ReportDeath: j.ReportDeath, Since: time.Now(),
		Session: j.Session.ID, Owner: j.Session.Owner, Mailbox: j.Session.Mailbox, TTL: j.Session.TTL,
	}}
	switch {
	case j.Retry:
		if st, found, err := s.again(ctx, j); found || err != nil {
			return st, err
		}
	case j.NoWait:
		if err := s.free(ctx, t); err != nil {
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
		st, err = s.joined(ctx, j)
		st.Found = true
		return st, err
	}
	t.Order, t.changed = got.Header.Revision, got.Header.Revision
	l := s.newLook(j.Session, []exchange.Ref{{Queue: j.Queue, ID: j.ID, Tag: t.tag(place{})}}, true)
	if err := l.newcomer(ctx, t, got); err != nil {
		return st, err
	}
	if st, err = l.comes(ctx, j.NoWait); driver.IsPermanent(err) { // the ticket must not stand
		if _, err := s.change(ctx, []clientv3.Cmp{stands(t)}, []clientv3.Op{clientv3.OpDelete(t.key), clientv3.OpDelete(s.demand(t))}, nil); err != nil {
			return st, err
		}
	}
	return st, err
}

// newcomer notes what a transaction says that has made the key of a ticket. If that is not the whole line, it reads the
// front of it, and the ticket once more: that may have been removed since, and those in front may have left.
func (l *look) newcomer(ctx context.Context, t *ticket, got *clientv3.TxnResponse) (err error) {
	read := func(i int) *pb.RangeResponse { return got.Responses[i].GetResponseRange() }
	s, q := l.s, l.of(t.queue)
	q.told, q.keeps, l.told, q.semaphore = true, true, true, t.Kind == driver.Semaphore
	q.Kept, l.all = l.readKept(read(1).Kvs, &q.wrong), l.readKept(read(2).Kvs, &l.wrong).Floor
	if t.ReportDeath {
		q.mark = readMark(read(4).Kvs)
	}
	if s.readLine(&q.line, t.queue, read(0)); q.Whole {
		l.first, l.seen = t.Order, []seen{{ticket: t, new: true}}
		return nil
	}
	any := q.line // it was read without an order
	q.line = line{Line: keys.Line[*ticket]{Kept: q.Kept}}
	var front *ticket
	far := s.isFar(t, &any, read(0).Count)
	if far {
		q.Keys = any.Keys
		l.add(s.sample(t.queue, t.key), func(r *pb.RangeResponse) {
			q.at = l.revision
			sampled := false
			if front, sampled = s.someInFront(t, &any, r); !sampled {
				l.first = t.Order
			}
		})
		l.ticket(l.refs[0], func(t *ticket) { l.seen = []seen{{ticket: t}} })
		err = l.batch.run(ctx)
	} else {
		if t.Units == t.Capacity {
			l.add(s.inFront(t.queue, t.Order), func(r *pb.RangeResponse) { front = s.readInFront(t.queue, r) })
		}
		err = l.rest(ctx, []int{0})
	}
	switch {
	case err != nil:
		return err
	case len(l.seen) == 0 || l.seen[0].Order != t.Order:
		return s.gone(ctx, l.session)
	}
	l.seen[0].front, l.seen[0].far, l.seen[0].new = front, far, true
	return nil
}

// comes says how a new ticket stands, and tells holders of the first waiter.
func (l *look) comes(ctx context.Context, noWait bool) (st exchange.Status, err error) {
	t := l.seen[0].ticket
	q := l.of(t.queue)
	err = errors.Join(q.wrong, l.wrong)
	switch {
	case err != nil:
		return st, err
	case keys.Token(t.Order, q.Floor, l.all) >= driver.MaxToken:
		return st, exchange.ErrTokens
	case slices.ContainsFunc(q.Keys, func(o *ticket) bool { return o.ID == t.ID && o.key != t.key }):
		return st, driver.ErrGone // it is the ID of a ticket of another session
	}
	if err = l.agree(ctx, t); err == nil && noWait {
		err = l.s.busy(ctx, &q.line, t)
	}
	if err == nil {
		err = l.judge(ctx)
	}
	if err != nil {
		return st, err
	}
	if p := l.seen[0].place; p.First {
		l.s.want(ctx, p.Before)
	}
	return l.found[0], nil
}

// busy returns an error if a ticket has to wait.
func (s *store) busy(ctx context.Context, ln *line, t *ticket) (err error) {
	var p place
	err = s.readUntil(ctx, ln, t.queue, func() bool { p = ln.Place(t); return p.Known })
	if err == nil && !p.Held {
		err = driver.ErrBusy
	}
	return err
}

// put makes the key of a ticket, unless the ticket is found, or was left. Its seat may be taken by another
// ticket; then the key has its ID. A change that comes late must not make a second key: so it expects that
// both keys are as they were.
func (s *store) put(ctx context.Context, o exchange.Session, t *ticket, of *shared) (got *clientv3.TxnResponse, found bool, err error) {
	seat, own, tombstone := s.seat(o, t.queue, t.ID), s.ticket(t.queue, t.ID), s.tombstone(t.ID)
	var mark []clientv3.Op // others are not told whether they inherit
	if t.ReportDeath {
		mark = []clientv3.Op{clientv3.OpGet(s.mark(t.queue))}
	}
	for range attempts * attempts {
		s.mu.Lock()
		by := s.seats[seat]
		s.mu.Unlock()
		t.key = own
		if by.id == "" || by.id == t.ID { // if it is there itself, it is found
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
				s.sits(seat, sitter{t.ID, got.Header.Revision})
			}
			return got, false, nil
		}
		read := func(i int) kvs { return got.Responses[i].GetResponseRange().Kvs }
		ref := exchange.Ref{Queue: t.queue, ID: t.ID}
		switch {
		case len(read(0)) > 0:
			return nil, false, driver.ErrGone
		case len(read(1)) > 0, s.readOne(ref, read(2)) != nil:
			return nil, true, nil
		case len(read(2)) > 0:
			s.sits(seat, sitter{s.readTicket(t.queue, read(2)[0]).ID, read(2)[0].CreateRevision})
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

// agree returns an error if a ticket is of another kind or number of permits than its queue. Others that are
// so, and wait, are removed: most likely they find that out just now, and they keep nobody out.
func (l *look) agree(ctx context.Context, t *ticket) error {
	q := l.of(t.queue)
	for range attempts {
		// There may be keys of queues below.
		if err := l.s.readUntil(ctx, &q.line, t.queue, func() bool { return !q.Number.Unset || len(q.Keys) > 0 }); err != nil {
			return err
		}
		v := q.Agree(t)
		switch {
		case v.Refused:
			return driver.ErrMismatch
		case v.By == nil: // none is in front, or these say another number, and leave by themselves
			return nil
		}
		comes := t.key != ""
		stand := []clientv3.Cmp{stands(v.By)}
		if comes {
			stand = append(stand, stands(t)) // else another one may hold by now
		}
		if t.Kind == driver.Semaphore { // by a number that is set by then they may hold
			stand = append(stand, clientv3.Compare(clientv3.ModRevision(l.s.floor(t.queue)), "=", q.Written))
		}
		var ops []clientv3.Op
		for _, o := range v.Expel[:min(maxOps, len(v.Expel))] {
			ops = append(ops, clientv3.OpDelete(o.key))
			stand = append(stand, stands(o))
		}
		got, err := l.s.change(ctx, stand, ops, nil)
		if err != nil {
			return err
		}
		if got.Succeeded {
			q.Keys = slices.DeleteFunc(q.Keys, func(o *ticket) bool { return slices.Contains(v.Expel, o) })
			return nil
		}
		*q = queue{line: line{Line: keys.Line[*ticket]{Kept: q.Kept}}, mark: q.mark, told: true, keeps: true, semaphore: q.semaphore}
		l.front(t.queue)
		if comes {
			l.get(t.key, func(all kvs) { comes = len(all) > 0 && all[0].CreateRevision == t.Order })
		}
		switch err := l.batch.run(ctx); {
		case err != nil:
			return err
		case t.key != "" && !comes:
			return l.s.gone(ctx, l.session)
		}
	}
	return nil // they are in front
}

// free returns an error if a ticket that were joined now would have to wait, or was left before.
func (s *store) free(ctx context.Context, t *ticket) error {
	l, left := s.newLook(exchange.Session{}, nil, false), false
	q := l.of(t.queue)
	l.told, q.told, q.keeps, q.semaphore = true, true, true, t.Kind == driver.Semaphore
	l.front(t.queue)
	l.get(s.tombstone(t.ID), func(all kvs) { left = len(all) > 0 })
	if err := errors.Join(l.batch.run(ctx), q.wrong); err != nil {
		return err
	}
	if left {
		return driver.ErrGone
	}
	after := *t
	after.Order = math.MaxInt64
	if err := l.agree(ctx, &after); err != nil {
		return err
	}
	return s.busy(ctx, &q.line, &after)
}

// again is of a Join that may have arrived before. It asks for the ticket first: to make the change once more
// would cost a cluster that is overwhelmed another proposal, for which all others wait.
func (s *store) again(ctx context.Context, j exchange.Join) (st exchange.Status, found bool, err error) {
	l, left, ref := s.newLook(j.Session, []exchange.Ref{{Queue: j.Queue, ID: j.ID}}, true), false, exchange.Ref{Queue: j.Queue, ID: j.ID}
	q := l.of(j.Queue)
	var there *ticket
	var count int64
	var some *pb.RangeResponse
	l.get(s.tombstone(j.ID), func(all kvs) { left = len(all) > 0 })
	l.ticket(ref, func(t *ticket) { there = t })
	l.keeps(j.Queue) // garbage counts as a number
	l.add(s.front(j.Queue, 0, perJoin, false), func(r *pb.RangeResponse) {
		s.readLine(&q.line, j.Queue, r)
		count = r.Count
	})
	l.add(s.sample(j.Queue, s.seat(j.Session, j.Queue, j.ID)), func(r *pb.RangeResponse) { some = r })
	switch err := l.batch.run(ctx); {
	case err != nil:
		return st, false, err
	case left:
		return st, false, driver.ErrGone
	case there == nil || !there.of(j.Session):
		return st, false, nil
	}
	if s.isFar(there, &q.line, count) {
		if last, _ := s.someInFront(there, &q.line, some); last != nil {
			l.seen = []seen{{ticket: there, place: place{Known: true, All: true}, front: last, far: true}}
			err := l.judge(ctx)
			return l.found[0], true, err
		}
	}
	st, err = s.joined(ctx, j)
	return st, true, err
}

// joined is of a Join whose ticket is there.
func (s *store) joined(ctx context.Context, j exchange.Join) (st exchange.Status, err error) {
	all, err := s.Look(ctx, j.Session, []exchange.Ref{{Queue: j.Queue, ID: j.ID}})
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
	for _, t := range holders {
		if !t.Foreign {
			ops = append(ops, s.demands(t, driver.Wanted))
		}
	}
	for some := range slices.Chunk(ops, maxOps) {
		if _, err := s.change(ctx, nil, some, nil); err != nil && len(some) > 1 {
			for _, op := range some { // one of them has just left, with its lease
				_, _ = s.change(ctx, nil, []clientv3.Op{op}, nil)
			}
		}
	}
}
