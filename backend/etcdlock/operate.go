package etcdlock

import (
	"context"
	"errors"
	"slices"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// demands is what tells the session of a ticket that something is demanded of it.
func (s *store) demands(t *ticket, what driver.Demand) clientv3.Op {
	return clientv3.OpPut(s.demand(t), strconv.Itoa(int(what)), clientv3.WithLease(t.lease))
}

// Ask changes the row of the ticket, and tells its session. Another library cannot be asked.
func (s *store) Ask(ctx context.Context, queue, id string, what driver.Demand) (unsettled bool, err error) {
	var evicted *ticket
	err = s.alterAny(ctx, exchange.Session{}, exchange.Ref{Queue: queue, ID: id}, func(t *ticket, p place) ([]clientv3.Op, error) {
		evicted = nil
		switch {
		case t == nil:
			return nil, driver.ErrGone
		case t.Foreign && (what == driver.Force || what == driver.Evict && !p.Held):
			return []clientv3.Op{clientv3.OpDelete(t.key)}, nil
		case t.Foreign:
			return nil, nil
		case what == driver.Force || what == driver.Evict && !p.Held:
			return s.force(ctx, t, p.Exclusive)
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
	return append(ops, clientv3.OpPut(s.tombstone(t.ID), "", clientv3.WithLease(bury))), nil
}

// expel moves a ticket that is evicted to a lease that nobody extends. How long that lives is found out after
// the row says that the ticket is evicted: until then a heartbeat may have proven more. If it does not come to
// that, the next heartbeat of the ticket's session does it.
func (s *store) expel(ctx context.Context, evicted *ticket) error {
	lease, err := s.grantRest(ctx, evicted.lease, evicted.TTL)
	if err != nil {
		return err
	}
	return s.alterAny(ctx, exchange.Session{ID: evicted.Session}, exchange.Ref{Queue: evicted.queue, ID: evicted.ID}, func(t *ticket, _ place) ([]clientv3.Op, error) {
		if t == nil || !t.Evicted || t.lease != evicted.lease {
			return nil, nil
		}
		return []clientv3.Op{s.rewrite(t, lease)}, nil
	})
}

// Raise has so much added to the tokens of tickets that are not held yet that these are above the floor.
func (s *store) Raise(ctx context.Context, name string, least uint64) error {
	if least+1 >= driver.MaxToken {
		return exchange.ErrTokens
	}
	for range attempts {
		b, ln := s.batch(), line{}
		b.get(s.floor(name), func(all kvs) { ln.Kept, _ = readKept(all) }) // if it cannot be read, it is written anew
		if name != "" {
			b.add(s.front(name, 0, perPage, true), func(r *pb.RangeResponse) {
				s.readLine(&ln, name, r)
				ln.at = b.revision
			})
		}
		if err := b.run(ctx); err != nil {
			return err
		}
		after := b.revision
		if err := s.readUntil(ctx, &ln, name, func() bool { return name == "" || ln.Full() }); err != nil { // there are keys of queues below
			return err
		}
		for _, t := range slices.Backward(ln.Keys) {
			if p := ln.Place(t); p.Known && !p.Held {
				after = t.Order - 1
			}
		}
		k := ln.Kept
		k.Floor = k.Floor.Raised(after, after+1, least)
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

// The number of permits stands in the key of the floor, which is read with the line whatever the kind of a ticket is:
// so number and line are of one revision, and who wants a mutex sees the number, too. Who was held when it was set is
// found out after that, from the history of the queue: nothing but the number has changed at that revision. Whoever
// finds that this was not done does it, with the same result. If the history was compacted before, it stays open who
// was held: none of these counts as a holder for others, and none is removed as a waiter.

// Resize sets a number of permits, or takes it back. It is in force from the first change on. The others,
// which say who was held then, and remove who can never fit, may be made by anybody.
func (s *store) Resize(ctx context.Context, name string, permits int64) (unsettled bool, err error) {
	for range attempts * attempts {
		ln, err := s.lineOf(ctx, name)
		switch {
		case err != nil:
			return false, err
		case !ln.Number.Complete():
			if _, err := s.findHeld(ctx, name, ln.Kept); err != nil {
				return false, err
			}
			continue
		}
		next := ln.Kept
		number, change, err := ln.Resize(permits)
		if err != nil || !change {
			return false, err
		}
		next.Number = number
		next, made, err := s.keep(ctx, name, next)
		switch {
		case err != nil:
			return false, err
		case !made:
			continue
		case next.Number.Permits == 0:
			return false, nil
		}
		if ln, err = s.findHeld(ctx, name, next); err != nil || ln.Number.Set != next.Number.Set { // another one is set by now
			return false, err
		}
		_, err = s.removeUnfit(ctx, ln.Kept, slices.DeleteFunc(ln.Keys, func(t *ticket) bool { return !ln.Unfit(t) }))
		return false, err
	}
	return false, errors.New("the number of permits was changed by others again and again")
}

// findHeld completes a number that was set: it writes who was held then. The line that it returns is the one
// of then, with what the queue keeps now. If that was compacted, it is written that nobody can find it out.
func (s *store) findHeld(ctx context.Context, name string, k keys.Kept) (*line, error) {
	ln, err := s.lineBefore(ctx, name, k.Number.Set)
	switch n := &k.Number; {
	case errors.Is(err, rpctypes.ErrCompacted):
		n.Perhaps, ln = n.Set-1, &line{}
	case err != nil:
		return nil, err
	default:
		n.Perhaps = ln.Number.Perhaps // of an earlier number
		if held := ln.Holders(); len(held) > 0 {
			n.Held = max(n.Held, held[len(held)-1].Order)
		}
	}
	for {
		found := k.Number
		now, made, err := s.keep(ctx, name, k)
		ln.Kept = now
		if err != nil || made || now.Number.Complete() || now.Number.Set != found.Set {
			return ln, err
		}
		k = now // tokens were raised
		k.Number.Held, k.Number.Perhaps = found.Held, found.Perhaps
	}
}

// lineBefore reads a whole line as it was when a number was set, and what the queue kept until then.
func (s *store) lineBefore(ctx context.Context, name string, set int64) (*line, error) {
	ln := &line{at: set}
	all, err := s.get(ctx, s.floor(name), clientv3.WithRev(set-1))
	if err == nil {
		ln.Kept, err = readKept(all)
	}
	if err != nil {
		return nil, err
	}
	return ln, s.readUntil(ctx, ln, name, func() bool { return false })
}

// keep writes what a queue keeps, if that was not written anew since it was read, and returns what it keeps by then.
func (s *store) keep(ctx context.Context, name string, k keys.Kept) (now keys.Kept, made bool, err error) {
	key := s.floor(name)
	got, err := s.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", k.Written)},
		[]clientv3.Op{clientv3.OpPut(key, valueOf(k))}, []clientv3.Op{clientv3.OpGet(key)})
	switch {
	case err != nil:
		return k, false, err
	case got.Succeeded:
		k.Written = got.Header.Revision
		k.Number.WrittenAt(k.Written)
		return k, true, nil
	}
	all := got.Responses[0].GetResponseRange().Kvs
	now, err = readKept(all)
	return now, len(all) > 0 && string(all[0].Value) == valueOf(k), err // by a copy of the request, or by another client
}

// removeUnfit removes tickets that wait for more than there can be, unless another number is set by then, and
// says which it has removed.
func (s *store) removeUnfit(ctx context.Context, k keys.Kept, unfit []*ticket) (removed []*ticket, err error) {
	for some := range slices.Chunk(unfit, maxOps) {
		var ops []clientv3.Op
		for _, t := range some {
			removal, err := s.force(ctx, t, false)
			if err != nil {
				return removed, err
			}
			ops = append(ops, ifUnchanged(t, removal...))
		}
		got, err := s.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.floor(some[0].queue)), "=", k.Written)}, ops, nil)
		if err != nil || !got.Succeeded {
			return removed, s.forget(err)
		}
		for i, r := range got.Responses {
			if r.GetResponseTxn().Succeeded {
				removed = append(removed, some[i])
			}
		}
	}
	return removed, nil
}

// numbers does what is left to do of the numbers of permits of the queues that a look has read: it has
// waiters leave that can never fit, and a heartbeat finds out who was held. If it fails, the next look tries
// again: these queues are not the only ones of the client.
func (l *look) numbers(ctx context.Context) {
	for _, q := range l.queues {
		if len(q.unfits) > 0 {
			gone, _ := l.s.removeUnfit(ctx, q.Kept, q.unfits)
			for _, t := range l.seen {
				if slices.Contains(gone, t.ticket) {
					l.found[t.i] = exchange.Status{}
				}
			}
		}
	}
	for name, q := range l.queues {
		if !q.Number.Complete() && !l.watch {
			_, _ = l.s.findHeld(ctx, name, q.Kept)
		}
	}
}

// lineOf reads the front of a queue, with one ticket at least unless it has none.
func (s *store) lineOf(ctx context.Context, name string) (*line, error) {
	l := s.newLook(exchange.Session{}, nil, false)
	q := l.front(name)
	if err := errors.Join(l.batch.run(ctx), l.err); err != nil {
		return nil, err
	}
	return &q.line, s.readUntil(ctx, &q.line, name, func() bool { return len(q.Keys) > 0 }) // there may be keys of queues below
}

// Settle does nothing: a queue settles by itself.
func (s *store) Settle(context.Context, string) (bool, error) { return false, nil }
