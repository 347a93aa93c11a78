package etcdlock

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

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

// Resize sets a number of permits, or takes it back. It is in force from the first change on. The others,
// which say who was held then, and remove who can never fit, may be made by anybody.
func (s *store) Resize(ctx context.Context, name string, permits int64) (unsettled bool, err error) {
	for range attempts * attempts {
		ln, err := s.lineOf(ctx, name)
		switch {
		case err != nil:
			return false, err
		case len(ln.tickets) > 0 && ln.tickets[0].Kind != driver.Semaphore:
			return false, driver.ErrMismatch
		case permits == 0 && ln.number.Permits == 0:
			return false, nil
		case ln.number.open():
			if _, err := s.findHeld(ctx, name, ln.kept); err != nil {
				return false, err
			}
			continue
		case permits == 0 && ln.number.Unset && ln.permits() > 0: // it ends without that
			return false, nil
		}
		next := ln.kept
		switch held := ln.number.Held; {
		case permits > 0:
			next.number = number{Permits: permits, Held: held}
		case len(ln.tickets) > 0 && ln.permits() > 0:
			next.number = number{Permits: ln.number.Permits, Held: held, Unset: true}
		default: // nobody stands for whom it is in force
			next.number = number{}
		}
		next, made, err := s.keep(ctx, name, next)
		switch {
		case err != nil:
			return false, err
		case !made:
			continue
		case next.number.Permits == 0:
			return false, nil
		}
		if ln, err = s.findHeld(ctx, name, next); err != nil || ln.number.Set != next.number.Set { // another one is set by now
			return false, err
		}
		_, err = s.removeUnfit(ctx, ln.kept, slices.DeleteFunc(ln.tickets, func(t *ticket) bool { return !ln.unfit(t) }))
		return false, err
	}
	return false, errors.New("the number of permits was changed by others again and again")
}

// findHeld completes a number that was set: it writes who was held then. The line that it returns is the one
// of then, with what the queue keeps now. If that was compacted, it is written that nobody can find it out.
func (s *store) findHeld(ctx context.Context, name string, k kept) (*line, error) {
	ln, err := s.lineBefore(ctx, name, k.number.Set)
	switch n := &k.number; {
	case errors.Is(err, rpctypes.ErrCompacted):
		n.Perhaps, ln = n.Set-1, &line{}
	case err != nil:
		return nil, err
	default:
		n.Perhaps = ln.number.Perhaps // of an earlier number
		for _, t := range ln.tickets {
			if !ln.place(t).held {
				break
			}
			n.Held = max(n.Held, t.created)
		}
	}
	for {
		found := k.number
		now, made, err := s.keep(ctx, name, k)
		ln.kept = now
		if err != nil || made || !now.number.open() || now.number.Set != found.Set {
			return ln, err
		}
		k = now // tokens were raised
		k.number.Held, k.number.Perhaps = found.Held, found.Perhaps
	}
}

// lineBefore reads a whole line as it was when a number was set, and what the queue kept until then.
func (s *store) lineBefore(ctx context.Context, name string, set int64) (*line, error) {
	ln, wrong, b := &line{at: set}, error(nil), s.batch()
	b.add(clientv3.OpGet(s.floor(name), clientv3.WithRev(set-1)), func(r *pb.RangeResponse) { ln.kept, wrong = readKept(r.Kvs) })
	if err := errors.Join(b.run(ctx), wrong); err != nil {
		return nil, err
	}
	for !ln.whole {
		if err := s.lengthen(ctx, ln, name); err != nil {
			return nil, err
		}
	}
	return ln, nil
}

// keep writes what a queue keeps, if that was not written anew since it was read, and returns what it keeps by then.
func (s *store) keep(ctx context.Context, name string, k kept) (now kept, made bool, err error) {
	key := s.floor(name)
	got, err := s.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", k.written)},
		[]clientv3.Op{clientv3.OpPut(key, k.value())}, []clientv3.Op{clientv3.OpGet(key)})
	switch {
	case err != nil:
		return k, false, err
	case got.Succeeded:
		k.written = got.Header.Revision
		k.number.complete(k.written)
		return k, true, nil
	}
	all := got.Responses[0].GetResponseRange().Kvs
	now, err = readKept(all)
	return now, len(all) > 0 && string(all[0].Value) == k.value(), err // by a copy of the request, or by another client
}

// removeUnfit removes tickets that wait for more than there can be, unless another number is set by then, and
// says which it has removed.
func (s *store) removeUnfit(ctx context.Context, k kept, unfit []*ticket) (removed []*ticket, err error) {
	for some := range slices.Chunk(unfit, maxOps) {
		var ops []clientv3.Op
		for _, t := range some {
			removal, err := s.force(ctx, t, false)
			if err != nil {
				return removed, err
			}
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed)}, removal, nil))
		}
		got, err := s.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.floor(some[0].queue)), "=", k.written)}, ops, nil)
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

// lineOf reads the front of a queue, with one ticket at least unless it has none.
func (s *store) lineOf(ctx context.Context, name string) (*line, error) {
	l := s.newLook(exchange.Session{}, nil, false)
	q := l.front(name)
	if err := errors.Join(l.batch.run(ctx), l.err); err != nil {
		return nil, err
	}
	for len(q.tickets) == 0 && !q.whole { // there are keys of queues below
		if err := s.lengthen(ctx, &q.line, name); err != nil {
			return nil, err
		}
	}
	return &q.line, nil
}

// Settle does nothing: a queue settles by itself.
func (s *store) Settle(context.Context, string) (bool, error) { return false, nil }
