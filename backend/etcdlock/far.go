package etcdlock

import (
	"context"
	"math/rand/v2"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// A ticket that needs the whole capacity waits for the one directly in front of it. To find that, a server
// reads and sorts all keys of the queue. If thousands come at once to a very long queue, this lasts longer
// than a server lets requests last, and they are repeated. So there a newcomer watches some ticket far in
// front of it. When that has left, most likely after nearly all of the wait, it asks for the one directly in
// front. Others stand between: that a ticket far in front has left says nothing about who is held.
const (
	veryLong  = 500 // from so many keys on
	perSample = 8   // of so many tickets the last one is watched
)

// isFar: a ticket is to watch one far in front of it, by the first keys of its queue, without an order. It
// needs the whole capacity. All of these are tickets, so that it is not keys of queues below that make the
// queue long, and those of this library are of its kind. No number of permits was set there.
func (s *store) isFar(t *ticket, ln *line, count int64) bool {
	return count >= s.veryLong && len(ln.Keys) == perJoin && ln.Number == (keys.Number{}) && needsWhole(t) &&
		!slices.ContainsFunc(ln.Keys, func(o *ticket) bool { return !o.Foreign && (o.Kind != t.Kind || o.Capacity != t.Capacity) }) &&
		slices.ContainsFunc(ln.Keys, func(o *ticket) bool { return !o.Foreign && o.ID != t.ID })
}

// needsWhole: a ticket is not held as long as any other one is in front of it.
func needsWhole(t *ticket) bool { return t.Kind != driver.Semaphore && t.Units >= t.Capacity }

// someInFront is the last one of a sample that is in front of a ticket, or else any of those that were read
// before; nil if none is.
func (s *store) someInFront(t *ticket, ln *line, sample *pb.RangeResponse) (last *ticket, sampled bool) {
	for _, kv := range sample.Kvs {
		if o := s.readTicket(t.queue, kv); o != nil && o.Order < t.Order && (last == nil || o.Order > last.Order) {
			last = o
		}
	}
	if before := ln.Place(t).Before; last == nil && len(before) > 0 {
		return before[rand.N(len(before))], false
	}
	return last, last != nil
}

// sample asks for some tickets of a queue: those with the next keys, which tell nothing of when they were created.
func (s *store) sample(queue, key string) clientv3.Op {
	return clientv3.OpGet(key+"\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.queue(queue))), clientv3.WithLimit(perSample))
}

// nearer reads what a waiter is to watch next that has watched a ticket far in front of it, if that has left.
// It returns for whom the queue is to be read: nobody if a ticket is directly in front of this waiter.
func (l *look) nearer(ctx context.Context, rest []int) ([]int, error) {
	if !l.watch || len(l.refs) != 1 || len(rest) == 0 {
		return rest, nil
	}
	ref := l.refs[0]
	if key, created := l.s.watches.blocker(ref); key == "" || created != 0 {
		return rest, nil
	}
	created := int64(ref.Tag >> tagBits)
	var last *ticket
	l.together(2)
	l.add(l.s.inFront(ref.Queue, created), func(r *pb.RangeResponse) { last = l.s.readInFront(ref.Queue, r) })
	l.ticket(ref, func(t *ticket) {
		if last != nil && t.Order == created && needsWhole(t) {
			l.seen = append(l.seen, seen{ticket: t, place: place{Known: true, All: true}, front: last})
			rest = nil
		}
	})
	err := l.batch.run(ctx)
	return rest, err
}

// inFront asks for the ticket in front of the one that was created then.
func (s *store) inFront(queue string, created int64) clientv3.Op {
	prefix := s.queue(queue)
	return clientv3.OpGet(prefix, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithMaxCreateRev(created-1))
}

// readInFront reads the answer to that; nil if it is a key of another queue, such as foo/bar/ID, or if there is none.
func (s *store) readInFront(queue string, r *pb.RangeResponse) *ticket {
	if len(r.Kvs) == 0 {
		return nil
	}
	return s.readTicket(queue, r.Kvs[0])
}

// watchDeep is watchWaiter for waiters that need the whole capacity and are far from the front: the ticket
// in front of each is asked for.
func (l *look) watchDeep(ctx context.Context, all []*seen) error {
	b := l.s.batch()
	for _, t := range all {
		b.add(l.s.inFront(t.queue, t.Order), func(r *pb.RangeResponse) { t.front = l.s.readInFront(t.queue, r) })
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	for _, t := range all {
		if t.front == nil { // a ticket of foo/bar, or none any more
			ln := line{}
			ln.Kept = l.of(t.queue).Kept
			if err := l.s.readUntil(ctx, &ln, t.queue, func() bool { t.place = ln.Place(t.ticket); return t.All }); err != nil {
				return err
			}
		}
		if t.front != nil || len(t.Before) > 0 {
			l.s.watchWaiter(t, l.first)
		} else { // it is held by now
			l.s.watches.set(ofTicket(t.ID), watching{t.key, "", t.Order, t.Order, 0, turnOf(t.ticket)})
		}
	}
	return nil
}
