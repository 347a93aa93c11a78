package etcdlock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// Leave deletes the key of a ticket.
func (s *store) Leave(ctx context.Context, l exchange.Leave) (unsettled bool, err error) {
	return s.leave(ctx, l, nil)
}

func (s *store) leave(ctx context.Context, l exchange.Leave, of *shared) (unsettled bool, err error) {
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
		t := &ticket{queue: l.Queue, key: s.keys(l.Session, l.Ref)[0], row: row{Key: keys.Key{ID: l.ID}, Mailbox: l.Session.Mailbox, Session: l.Session.ID}}
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
		got, err := s.changeIn(ctx, of, when, ops, nil)
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
	err = s.alter(ctx, l.Session, l.Ref, func(t *ticket, p place) ([]clientv3.Op, error) {
		if l.Unfixed && t.Fixed > 0 {
			return nil, nil
		}
		knows := t.Stays || !l.Clean // else it has used nothing, and what it has not heard of is for the next one
		return s.removal(t, p.Exclusive && knows, l.Clean), nil
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
		ops = append(ops, clientv3.OpPut(s.mark(t.queue), text(keys.Mark{ID: t.ID})))
	case clean:
		marked := clientv3.Compare(clientv3.Value(s.mark(t.queue)), "=", text(keys.Mark{ID: t.ID}))
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{marked}, []clientv3.Op{clientv3.OpDelete(s.mark(t.queue))}, nil))
	}
	return ops
}

// alter reads a ticket that is of the session, or has a fixed end, and changes it as change says, which
// may be asked again. No operations change nothing.
func (s *store) alter(ctx context.Context, o exchange.Session, ref exchange.Ref, change func(t *ticket, p place) ([]clientv3.Op, error)) error {
	return s.alterAny(ctx, o, ref, func(t *ticket, p place) ([]clientv3.Op, error) {
		if t == nil || !t.standsFor(o, p.Held) {
			return nil, s.gone(ctx, o)
		}
		return change(t, p)
	})
}

// gone says that a ticket does not stand, or that its session is over.
func (s *store) gone(ctx context.Context, o exchange.Session) error {
	switch all, err := s.get(ctx, s.session(o)); {
	case err != nil:
		return err
	case len(all) == 0:
		return driver.ErrSession
	}
	return driver.ErrGone
}

// alterAny is alter for the ticket of anybody; nil if it does not stand. Without a session the whole queue is
// looked through.
func (s *store) alterAny(ctx context.Context, o exchange.Session, ref exchange.Ref, change func(t *ticket, p place) ([]clientv3.Op, error)) error {
	for range attempts * attempts {
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
			return err
		}
		var p place
		var when []clientv3.Cmp // a change by others is for one that waits only if it still does
		if t != nil {
			t.knows(ref.Tag)
			if err := s.readUntil(ctx, &q.line, ref.Queue, func() bool { p = q.Place(t); return p.Known }); err != nil {
				return err
			}
			if t.Kind == driver.Semaphore && (l.err != nil || o.ID == "" && q.Perhaps(t)) { // the number is not known, or who was held
				p.Held = o.ID == "" || t.Stays
			}
			if !p.Held && o.ID == "" {
				if when = keepers(p); t.Kind == driver.Semaphore {
					when = append(when, clientv3.Compare(clientv3.ModRevision(s.floor(ref.Queue)), "=", q.Written))
				}
			}
		}
		ops, err := change(t, p)
		if err != nil || len(ops) == 0 {
			return err
		}
		got, err := s.change(ctx, append(when, unchanged(t)), ops, nil)
		if err != nil {
			return err
		}
		if got.Succeeded {
			return nil
		}
	}
	return errors.New("the ticket was changed by others again and again")
}

// keepers says that the tickets stand which keep a waiter out.
func keepers(p place) (all []clientv3.Cmp) {
	obstacles, _ := p.Obstacles()
	for _, o := range obstacles[:min(len(obstacles), maxOps/2)] { // the others are too many for a transaction
		all = append(all, stands(o))
	}
	return all
}

// stands: it does.
func stands(t *ticket) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.key), "=", t.Order)
}

// unchanged: it stands as it was read.
func unchanged(t *ticket) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed)
}

func ifUnchanged(t *ticket, ops ...clientv3.Op) clientv3.Op {
	return clientv3.OpTxn([]clientv3.Cmp{unchanged(t)}, ops, nil)
}

// rewrite is what writes the row of a ticket with that lease.
func (s *store) rewrite(t *ticket, lease clientv3.LeaseID) clientv3.Op {
	return clientv3.OpPut(t.key, t.value(), clientv3.WithLease(lease))
}

// Shrink reduces the units of a ticket. Who waits for them watches the key.
func (s *store) Shrink(ctx context.Context, o exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	err := s.alter(ctx, o, ref, func(t *ticket, p place) (ops []clientv3.Op, err error) {
		if units >= t.Units {
			return nil, nil
		}
		if p.Exclusive { // the exclusive hold has ended well
			ops = append(ops, clientv3.OpDelete(s.mark(t.queue)))
		}
		t.Units, t.Held = units, p.Held // its tag is not known any more
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
	err = s.alter(ctx, o, ref, func(t *ticket, p place) (ops []clientv3.Op, err error) {
		if !p.Held {
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
		if t.Hold == 0 && p.Exclusive { // its end is clean
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

// End revokes the lease of the session, and removes the tickets that were moved to another one: after that, since
// an eviction may move them meanwhile. Others may change them, too.
func (s *store) End(ctx context.Context, o exchange.Session, tickets []exchange.Leave) (queues []string, err error) {
	for _, l := range tickets {
		s.leaves(l)
	}
	if err := s.revoke(ctx, leaseOf(o.ID)); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil, err
	}
	for range attempts {
		removals, err := s.leftBehind(ctx, o, tickets)
		if err != nil || len(removals) == 0 {
			return nil, err
		}
		if err := s.changeAll(ctx, removals); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("a ticket was changed by others again and again")
}

// leftBehind is what removes the tickets of a session whose lease has ended, each if it has not changed since.
func (s *store) leftBehind(ctx context.Context, o exchange.Session, tickets []exchange.Leave) (removals []clientv3.Op, err error) {
	l := s.newLook(o, nil, false)
	for _, leave := range tickets {
		l.ticket(leave.Ref, func(t *ticket) {
			if t.of(o) && t.Fixed == 0 {
				removals = append(removals, ifUnchanged(t, clientv3.OpDelete(t.key)))
			}
		})
	}
	err = l.batch.run(ctx)
	return removals, err
}

// leaves is called before a ticket leaves.
func (s *store) leaves(l exchange.Leave) {
	s.watches.drop(ofTicket(l.ID))
	if l.Tag == 0 || l.Tag&tagSeat != 0 {
		s.sits(s.seat(l.Session, l.Queue, l.ID), sitter{})
	}
}
