package etcdlock

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Leave deletes the key of a ticket.
func (s *store) Leave(ctx context.Context, l exchange.Leave) (unsettled bool, err error) {
	s.leaves(l)
	var bury []clientv3.Op // before it is looked for: then no Join comes after that
	if l.Tombstone > 0 {
		lease, err := s.spare(ctx, l.Tombstone)
		if err != nil {
			return false, err
		}
		bury = []clientv3.Op{clientv3.OpPut(s.tombstone(l.ID), "", clientv3.WithLease(lease))}
	}
	if l.Tag != 0 { // one exchange, if it is attached to the lease of the session
		created := int64(l.Tag >> tagBits)
		t := &ticket{queue: l.Queue, key: s.keys(l.Session, l.Ref)[0], id: l.ID, row: row{Mailbox: l.Session.Mailbox, Session: l.Session.ID}}
		exclusive := l.Tag&tagExclusive != 0
		ops := append(s.removal(t, exclusive, l.Clean), bury...)
		when := []clientv3.Cmp{
			clientv3.Compare(clientv3.LeaseValue(t.key), "=", leaseOf(l.Session.ID)),
			clientv3.Compare(clientv3.CreateRevision(t.key), "=", created),
		}
		if l.Tag&tagSemaphore != 0 { // it has as much of the whole as when it was joined
			when = append(when, clientv3.Compare(clientv3.ModRevision(s.floor(l.Queue)), "<", created))
		}
		if exclusive && l.Tag&tagWaited != 0 { // others may wait, too
			ops = append(ops, clientv3.OpPut(s.leaver(l.Queue), strconv.FormatInt(created, 10), clientv3.WithLease(leaseOf(l.Session.ID))))
		}
		got, err := s.changeIn(ctx, l.Queue, when, ops, nil)
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace): // a full database takes no leaver, but the ticket can be deleted
		case err != nil:
			return false, s.forget(err)
		case got.Succeeded:
			return false, nil
		}
	}
	if len(bury) > 0 {
		if _, err := s.change(ctx, nil, bury, nil); err != nil {
			return false, s.forget(err)
		}
	}
	_, err = s.alter(ctx, l.Session, l.Ref, func(t *ticket, p place) ([]clientv3.Op, error) {
		if l.Unfixed && t.Fixed > 0 {
			return nil, nil
		}
		knows := t.stays() || !l.Clean // else it has used nothing, and what it has not heard of is for the next one
		return s.removal(t, p.exclusive && knows, l.Clean), nil
	})
	return false, err
}

// removal is what takes a ticket out of its queue. It says so of an exclusive holder. One that is not known
// to hold may be marked by now, by an exchange whose answer nobody has had.
func (s *store) removal(t *ticket, exclusive, clean bool) []clientv3.Op {
	ops := []clientv3.Op{clientv3.OpDelete(t.key), clientv3.OpDelete(s.demand(t))}
	switch {
	case exclusive && clean:
		ops = append(ops, clientv3.OpDelete(s.mark(t.queue)))
	case exclusive:
		ops = append(ops, clientv3.OpPut(s.mark(t.queue), mark{ID: t.id}.value()))
	case clean:
		marked := clientv3.Compare(clientv3.Value(s.mark(t.queue)), "=", mark{ID: t.id}.value())
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{marked}, []clientv3.Op{clientv3.OpDelete(s.mark(t.queue))}, nil))
	}
	return ops
}

// alter reads a ticket that is of the session, or has a fixed end, and changes it as change says, which
// may be asked again. No operations change nothing.
func (s *store) alter(ctx context.Context, o exchange.Session, ref exchange.Ref, change func(t *ticket, p place) ([]clientv3.Op, error)) (*ticket, error) {
	return s.alterAny(ctx, o, ref, func(t *ticket, p place) ([]clientv3.Op, error) {
		if t == nil || !t.standsFor(o, p.held) {
			return nil, s.gone(ctx, o)
		}
		return change(t, p)
	})
}

// gone says that a ticket does not stand, or that its session is over.
func (s *store) gone(ctx context.Context, o exchange.Session) error {
	err := driver.ErrGone
	b := s.batch()
	b.get(s.session(o), func(all kvs) {
		if len(all) == 0 {
			err = driver.ErrSession
		}
	})
	if e := b.run(ctx); e != nil {
		return e
	}
	return err
}

// alterAny is alter for the ticket of anybody; nil if it does not stand. Without a session the whole queue is
// looked through.
func (s *store) alterAny(ctx context.Context, o exchange.Session, ref exchange.Ref, change func(t *ticket, p place) ([]clientv3.Op, error)) (*ticket, error) {
	for range attempts {
		var t *ticket
		l := s.newLook(o, nil, false)
		q := l.front(ref.Queue)
		if o.ID != "" {
			l.ticket(exchange.Ref{Queue: ref.Queue, ID: ref.ID}, func(found *ticket) { t = found })
		}
		err := l.batch.run(ctx)
		if err == nil && t == nil {
			t, err = s.search(ctx, &q.line, ref.Queue, ref.ID, o.ID == "")
		}
		if err != nil {
			return nil, err
		}
		var p place
		var when []clientv3.Cmp // a change by others is for one that waits only if it still does
		if t != nil {
			t.knows(ref.Tag)
			for p = q.place(t); !p.known; p = q.place(t) {
				if err := s.lengthen(ctx, &q.line, ref.Queue); err != nil {
					return nil, err
				}
			}
			if t.Kind == driver.Semaphore && (l.err != nil || o.ID == "" && t.created <= q.number.Perhaps) { // the number is not known, or who was held
				p.held = o.ID == "" || t.stays()
			}
			if !p.held && o.ID == "" {
				if when = p.keepers(t); t.Kind == driver.Semaphore {
					when = append(when, clientv3.Compare(clientv3.ModRevision(s.floor(ref.Queue)), "=", q.written))
				}
			}
		}
		ops, err := change(t, p)
		if err != nil || len(ops) == 0 {
			return t, err
		}
		when = append(when, clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed))
		got, err := s.change(ctx, when, ops, nil)
		if err != nil {
			return t, err
		}
		if got.Succeeded {
			return t, nil
		}
	}
	return nil, errors.New("the ticket was changed by others again and again")
}

// rewrite is what writes the row of a ticket with that lease.
func (s *store) rewrite(t *ticket, lease clientv3.LeaseID) clientv3.Op {
	return clientv3.OpPut(t.key, t.value(), clientv3.WithLease(lease))
}

// Shrink reduces the units of a ticket. Who waits for them watches the key.
func (s *store) Shrink(ctx context.Context, o exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	_, err := s.alter(ctx, o, ref, func(t *ticket, p place) (ops []clientv3.Op, err error) {
		if units >= t.Units {
			return nil, nil
		}
		if p.exclusive { // the exclusive hold has ended well
			ops = append(ops, clientv3.OpDelete(s.mark(t.queue)))
		}
		t.Units, t.Held = units, p.held // its tag is not known any more
		return append(ops, s.rewrite(t, t.lease)), nil
	})
	return false, err
}

// Keep gives a holder a lease of its own.
func (s *store) Keep(ctx context.Context, o exchange.Session, ref exchange.Ref, d time.Duration) error {
	lease, err := s.grantFixed(ctx, d)
	if err != nil {
		return err
	}
	var before clientv3.LeaseID
	_, err = s.alter(ctx, o, ref, func(t *ticket, p place) (ops []clientv3.Op, err error) {
		if !p.held {
			return nil, exchange.ErrNotHeld
		}
		if t.Evicted {
			left, err := s.left(ctx, t.lease)
			if err != nil {
				return nil, err
			}
			if d+time.Second > left {
				return nil, driver.ErrGone
			}
		}
		if t.Hold == 0 && p.exclusive { // its end is clean
			ops = append(ops, clientv3.OpDelete(s.mark(t.queue)))
		}
		before = 0
		if t.Fixed > 0 {
			before = t.lease
		}
		t.Fixed = d
		return append(ops, s.rewrite(t, lease)), nil
	})
	switch {
	case err != nil && driver.IsPermanent(err):
		_ = s.revoke(ctx, lease)
	case err == nil && before != 0:
		_ = s.revoke(ctx, before)
	}
	return err
}

// Detach moves strays to a lease that nobody extends. It may take effect late: see undetach.
func (s *store) Detach(ctx context.Context, o exchange.Session, refs []exchange.Ref) error {
	attached := leaseOf(o.ID)
	var strays []*ticket
	b := s.batch()
	for _, ref := range refs {
		for _, key := range s.keys(o, ref) {
			b.get(key, func(all kvs) {
				if t := s.readOne(ref, all); t != nil && t.lease == attached {
					strays = append(strays, t)
				}
			})
		}
	}
	if err := b.run(ctx); err != nil || len(strays) == 0 {
		return err
	}
	s.mu.Lock()
	for _, t := range strays {
		s.detaching[t.id] = true
	}
	s.mu.Unlock()
	lease, err := s.grantRest(ctx, attached, o.TTL)
	if err != nil {
		return err
	}
	var ops []clientv3.Op
	for _, t := range strays {
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed)},
			[]clientv3.Op{clientv3.OpPut(t.key, "", clientv3.WithIgnoreValue(), clientv3.WithLease(lease))}, nil))
	}
	if err := s.changeAll(ctx, ops); err != nil {
		return err // it may come yet
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range strays {
		delete(s.detaching, t.id)
	}
	return nil
}

// undetach is called before a heartbeat extends tickets that are named again. If a Detach of one is under
// way, or may still come, that must not take effect any more: it would move the ticket to a lease that may end before what
// the heartbeat proves. So the ticket is written anew, which the Detach does not expect.
func (s *store) undetach(ctx context.Context, o exchange.Session, named []exchange.Ref) error {
	s.mu.Lock()
	none := len(s.detaching) == 0
	s.mu.Unlock()
	if none {
		return nil
	}
	for _, ref := range named {
		s.mu.Lock()
		pending := s.detaching[ref.ID]
		s.mu.Unlock()
		if !pending {
			continue
		}
		_, err := s.alter(ctx, o, ref, func(t *ticket, _ place) ([]clientv3.Op, error) {
			return []clientv3.Op{s.rewrite(t, t.lease)}, nil
		})
		if err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		s.mu.Lock()
		delete(s.detaching, ref.ID)
		s.mu.Unlock()
	}
	return nil
}

// changeAll makes changes. Each has a condition of its own.
func (s *store) changeAll(ctx context.Context, ops []clientv3.Op) error {
	for ; len(ops) > 0; ops = ops[min(maxOps, len(ops)):] {
		if _, err := s.change(ctx, nil, ops[:min(maxOps, len(ops))], nil); err != nil {
			return err
		}
	}
	return nil
}

// Attach moves strays back.
func (s *store) Attach(ctx context.Context, o exchange.Session, refs []exchange.Ref) error {
	for _, ref := range refs {
		_, err := s.alter(ctx, o, ref, func(t *ticket, _ place) ([]clientv3.Op, error) {
			if t.Fixed > 0 || t.Evicted {
				return nil, nil
			}
			return []clientv3.Op{s.rewrite(t, leaseOf(o.ID))}, nil
		})
		if err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	return nil
}

// Tickets is never called: a cluster has one history.
func (s *store) Tickets(context.Context, exchange.Session) ([]exchange.Ref, error) { return nil, nil }

// demands is what tells the session of a ticket that something is demanded of it.
func (s *store) demands(t *ticket, what driver.Demand) clientv3.Op {
	return clientv3.OpPut(s.demand(t), strconv.Itoa(int(what)), clientv3.WithLease(t.lease))
}

// Ask changes the row of the ticket, and tells its session. Another library cannot be asked.
func (s *store) Ask(ctx context.Context, queue, id string, what driver.Demand) (unsettled bool, err error) {
	var evicted *ticket
	_, err = s.alterAny(ctx, exchange.Session{}, exchange.Ref{Queue: queue, ID: id}, func(t *ticket, p place) ([]clientv3.Op, error) {
		evicted = nil
		switch {
		case t == nil:
			return nil, driver.ErrGone
		case t.foreign && (what == driver.Force || what == driver.Evict && !p.held):
			return []clientv3.Op{clientv3.OpDelete(t.key)}, nil
		case t.foreign:
			return nil, nil
		case what == driver.Force || what == driver.Evict && !p.held:
			return s.force(ctx, t, p.exclusive)
		case what == driver.Revoke:
			t.Revoked = true
		case !t.Evicted || t.attached():
			t.Evicted, evicted = true, t
		}
		return []clientv3.Op{s.rewrite(t, t.lease), s.demands(t, what)}, nil
	})
	if err == nil && evicted != nil {
		err = s.expel(ctx, evicted)
	}
	return false, s.forget(err)
}

// force is what removes a ticket, and tells its session. No Join with its ID comes after that.
func (s *store) force(ctx context.Context, t *ticket, exclusive bool) ([]clientv3.Op, error) {
	bury, err := s.spare(ctx, t.TTL)
	if err != nil {
		return nil, err
	}
	ops := s.removal(t, exclusive, false)
	ops[1] = s.demands(t, driver.Force)
	return append(ops, clientv3.OpPut(s.tombstone(t.id), "", clientv3.WithLease(bury))), nil
}

// expel moves a ticket that is evicted to a lease that nobody extends. How long that lives is found out after
// the row says that the ticket is evicted: until then a heartbeat may have proven more. If it does not come to
// that, the next heartbeat of the ticket's session does it.
func (s *store) expel(ctx context.Context, evicted *ticket) error {
	lease, err := s.grantRest(ctx, evicted.lease, evicted.TTL)
	if err != nil {
		return err
	}
	_, err = s.alterAny(ctx, exchange.Session{ID: evicted.Session}, exchange.Ref{Queue: evicted.queue, ID: evicted.id}, func(t *ticket, _ place) ([]clientv3.Op, error) {
		if t == nil || !t.Evicted || t.lease != evicted.lease {
			return nil, nil
		}
		return []clientv3.Op{s.rewrite(t, lease)}, nil
	})
	return err
}

// Raise has so much added to the tokens of tickets that are not held yet that these are above the floor.
func (s *store) Raise(ctx context.Context, name string, least uint64) error {
	if least+1 >= driver.MaxToken {
		return exchange.ErrTokens
	}
	for range attempts {
		b, ln := s.batch(), line{}
		b.get(s.floor(name), func(all kvs) { ln.kept, _ = readKept(all) }) // if it cannot be read, it is written anew
		if name != "" {
			b.add(s.front(name, 0, perPage, true), func(r *pb.RangeResponse) {
				s.readLine(&ln, name, r)
				ln.asOf(b.revision)
			})
		}
		if err := b.run(ctx); err != nil {
			return err
		}
		after := b.revision
		for name != "" && !ln.whole && !ln.full() { // there are keys of queues below
			if err := s.lengthen(ctx, &ln, name); err != nil {
				return err
			}
		}
		for _, t := range slices.Backward(ln.tickets) {
			if p := ln.place(t); p.known && !p.held {
				after = t.created - 1
			}
		}
		k := ln.kept
		add := k.floor.add(math.MaxInt64)
		if next := uint64(after) + 1; least >= next {
			add = max(add, least+1-next)
		}
		k.floor = append(k.floor, step{After: after, Add: add})
		if _, made, err := s.keep(ctx, name, k); made || err != nil {
			return err
		}
	}
	return errors.New("the floor of tokens was changed by others again and again")
}

// RaiseAll is Raise for all queues.
func (s *store) RaiseAll(ctx context.Context, floor uint64) error { return s.Raise(ctx, "", floor) }

// Clock is never called: RaiseAll needs none.
func (s *store) Clock(context.Context) (int64, error) { return 0, errors.ErrUnsupported }
