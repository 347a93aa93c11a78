package etcdlock

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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
			if t.Evicted = true; t.Fixed == 0 || t.Hold == 0 {
				evicted = t
			}
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
// so number and line are of one revision, and who wants a mutex sees the number, too.

// Resize sets a number of permits, or takes it back, and says with it who was held. Then it removes who can never fit.
// If it dies before that, each of these leaves with the next look at it.
func (s *store) Resize(ctx context.Context, name string, permits int64) (unsettled bool, err error) {
	for tries := range attempts * attempts {
		ln, err := s.lineOf(ctx, name)
		if err != nil {
			return false, err
		}
		number, change, err := ln.Resize(permits)
		if err != nil || !change {
			return false, err
		}
		next := ln.Kept
		next.Number = number
		stand := ln.HeldNow(&next.Number, ln.at)
		var when []clientv3.Cmp
		switch fits := ln.Number.Permits > 0 && !ln.Number.Unset && number.Permits >= ln.Number.Permits; {
		case fits && next.Number.Perhaps == 0: // all others wait, or fit
			next.Number.Waited = math.MaxInt64
		case fits:
		case number.Permits > 0 && len(stand) > 0 && len(stand) < maxOps && tries < attempts*attempts-1:
			for _, t := range stand {
				when = append(when, stands(t))
			}
		default: // it is not known who else is held
			next.Number = number
		}
		next, made, err := s.keep(ctx, name, next, when...)
		switch {
		case err != nil:
			return false, err
		case !made:
			continue
		case next.Number.Permits == 0:
			return false, nil
		}
		ln.Kept = next
		_, err = s.removeUnfit(ctx, ln.Kept, slices.DeleteFunc(ln.Keys, func(t *ticket) bool { return !ln.Unfit(t) }))
		return false, err
	}
	return false, errors.New("the number of permits was changed by others again and again")
}

// keep writes what a queue keeps, if that was not written anew since it was read, and returns what it keeps by then.
func (s *store) keep(ctx context.Context, name string, k keys.Kept, when ...clientv3.Cmp) (now keys.Kept, made bool, err error) {
	key := s.floor(name)
	got, err := s.change(ctx, append(when, clientv3.Compare(clientv3.ModRevision(key), "=", k.Written)),
		[]clientv3.Op{clientv3.OpPut(key, text(k))}, []clientv3.Op{clientv3.OpGet(key)})
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
	return now, len(all) > 0 && string(all[0].Value) == text(k), err // by a copy of the request, or by another client
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

// numbers has waiters leave that can never fit, by the numbers of permits of the queues that a look has read. If it
// fails, the next look tries again: these queues are not the only ones of the client.
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
}

// lineOf reads a queue.
func (s *store) lineOf(ctx context.Context, name string) (*line, error) {
	l := s.newLook(exchange.Session{}, nil, false)
	q := l.front(name)
	if err := errors.Join(l.batch.run(ctx), l.err); err != nil {
		return nil, err
	}
	return &q.line, s.readUntil(ctx, &q.line, name, func() bool { return false })
}

// Settle does nothing: a queue settles by itself.
func (s *store) Settle(context.Context, string) (bool, error) { return false, nil }
