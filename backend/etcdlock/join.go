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
)

// Join makes the key of a ticket, and reads as much of the queue as says that it is alone. In a longer
// queue it reads the rest afterwards, since a transaction that sorts a queue would hold up the server.
func (s *store) Join(ctx context.Context, j exchange.Join) (st exchange.Status, err error) {
	t := &ticket{queue: j.Queue, id: j.ID, note: j.Note, lease: leaseOf(j.Session.ID), row: row{
		Kind: j.Kind, Units: j.Units, Capacity: j.Capacity, Hold: j.Hold, Robust: j.Robust, Since: time.Now(),
		Session: j.Session.ID, Owner: j.Session.Owner, Mailbox: j.Session.Mailbox, TTL: j.Session.TTL,
	}}
	if j.NoWait && !j.Retry {
		if err := s.free(ctx, t); err != nil {
			return st, err
		}
	}
	key := s.ticket(t.queue, t.id)
	got, err := s.change(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.Compare(clientv3.CreateRevision(s.tombstone(t.id)), "=", 0)},
		[]clientv3.Op{
			clientv3.OpPut(key, t.value(), clientv3.WithLease(t.lease)), s.front(t.queue, 0, 2, false),
			clientv3.OpGet(s.mark(t.queue)), clientv3.OpGet(s.floor(t.queue)), clientv3.OpGet(s.floor("")),
		},
		[]clientv3.Op{clientv3.OpGet(key), clientv3.OpGet(s.tombstone(t.id))})
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return st, driver.ErrSession
	case err != nil:
		return st, err
	case !got.Succeeded:
		return s.joined(ctx, j, got.Responses[0].GetResponseRange().Kvs)
	}
	t.created, t.changed = got.Header.Revision, got.Header.Revision
	read := func(i int) *pb.RangeResponse { return got.Responses[i].GetResponseRange() }
	q, b := &queue{mark: readMark(read(2).Kvs)}, s.batch()
	if s.readLine(&q.line, t.queue, read(1)); !q.whole {
		q.line = line{}
		b.add(s.front(t.queue, 0, perFront, true), func(r *pb.RangeResponse) { s.readLine(&q.line, t.queue, r) })
		if err := b.run(ctx); err != nil {
			return st, err
		}
	}
	l := s.newLook(j.Session, nil, true)
	q.floor, l.all = l.readFloor(read(3).Kvs), l.readFloor(read(4).Kvs)
	token := l.token(q, t)
	if err = l.err; err == nil && token >= driver.MaxToken {
		err = exchange.ErrTokens
	}
	if err == nil {
		err = s.agree(ctx, &q.line, t)
	}
	if err == nil {
		st, err = s.stands(ctx, j, t, q, token)
	}
	if driver.IsPermanent(err) { // the ticket must not stand
		if _, err := s.change(ctx, nil, []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(s.demand(t))}, nil); err != nil {
			return st, err
		}
	}
	return st, err
}

// stands says how a new ticket stands, and tells holders of the first waiter.
func (s *store) stands(ctx context.Context, j exchange.Join, t *ticket, q *queue, token uint64) (st exchange.Status, err error) {
	p := q.place(t)
	for ; !p.known || !p.held && !p.all && !t.exclusive(); p = q.place(t) {
		if err := s.lengthen(ctx, &q.line, t.queue); err != nil {
			return st, err
		}
	}
	st = s.status(t, p)
	switch {
	case p.held:
		return st, s.granted(ctx, j.Session, t, q.mark, token, false, &st)
	case j.NoWait:
		return st, driver.ErrBusy
	case p.all:
		s.watchWaiter(t, p)
	default:
		if err := s.watchDeep(ctx, []*seen{{0, t, p}}); err != nil {
			return st, err
		}
	}
	if p.first {
		s.want(ctx, p.before)
	}
	return st, nil
}

// agree returns an error if a ticket is of another kind or capacity than the first one of this library in
// its queue. Others that are so, and wait, are removed: most likely they find that out just now, and they
// keep nobody out.
func (s *store) agree(ctx context.Context, ln *line, t *ticket) error {
	odd := func(o *ticket) bool {
		return !o.foreign && o.id != t.id && (o.Kind != t.Kind || o.Capacity != t.Capacity)
	}
	for range attempts {
		i := slices.IndexFunc(ln.tickets, func(o *ticket) bool { return !o.foreign && o.id != t.id })
		if i < 0 || !slices.ContainsFunc(ln.tickets, odd) {
			return nil
		}
		first := ln.tickets[i]
		if odd(first) {
			return driver.ErrMismatch
		}
		var ops []clientv3.Op
		for _, o := range ln.tickets {
			if odd(o) && len(ops) < maxOps {
				ops = append(ops, clientv3.OpDelete(s.ticket(o.queue, o.id)))
			}
		}
		stands := clientv3.Compare(clientv3.CreateRevision(s.ticket(first.queue, first.id)), "=", first.created)
		got, err := s.change(ctx, []clientv3.Cmp{stands}, ops, nil)
		if err != nil {
			return err
		}
		if got.Succeeded {
			ln.tickets = slices.DeleteFunc(ln.tickets, odd)
			return nil
		}
		*ln = line{}
		if err := s.lengthen(ctx, ln, t.queue); err != nil {
			return err
		}
	}
	return nil // they are in front
}

// free returns an error if a ticket that were joined now would have to wait, or was left before.
func (s *store) free(ctx context.Context, t *ticket) error {
	var ln line
	left, b := false, s.batch()
	b.get(s.tombstone(t.id), func(all kvs) { left = len(all) > 0 })
	b.add(s.front(t.queue, 0, perFront, true), func(r *pb.RangeResponse) { s.readLine(&ln, t.queue, r) })
	if err := b.run(ctx); err != nil {
		return err
	}
	if left {
		return driver.ErrGone
	}
	if err := s.agree(ctx, &ln, t); err != nil {
		return err
	}
	after := *t
	after.created = math.MaxInt64
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

// joined is of a Join whose key is there, or that was left before.
func (s *store) joined(ctx context.Context, j exchange.Join, found kvs) (st exchange.Status, err error) {
	if len(found) == 0 {
		return st, driver.ErrGone // there is a tombstone
	}
	if t := s.readTicket(j.Queue, found[0]); !t.of(j.Session) {
		return st, driver.ErrGone
	}
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
