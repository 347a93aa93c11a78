package etcdlock

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// number is a number of permits that was set for a queue. It stands in the key of the floor, which is read with the line
// whatever the kind of a ticket is: so number and line are of one revision, and who wants a mutex sees the number, too.
//
// Who is held stands in front of all others, also when the number has been lowered. So one revision says who was held
// then. It is found out after the number was set, from the history of the queue: nothing but the number has changed at that
// revision. Whoever finds that this was not done does it, with the same result. If the history was compacted before, it
// stays open who was held: none of these counts as a holder for others, and none is removed as a waiter.
type number struct {
	Permits int64 `json:"permits"`           // 0: none was set, or it is not known
	Set     int64 `json:"set,omitempty"`     // the revision at which it was; 0: that of the key
	Unset   bool  `json:"unset,omitempty"`   // it is in force as long as a ticket stands that was created before that
	Held    int64 `json:"held,omitempty"`    // tickets that were created up to this revision are held
	Perhaps int64 `json:"perhaps,omitempty"` // further ones up to this revision may be
}

// complete is called when the key of the number was read, which was written at that revision. What was just set does
// not say when.
func (n *number) complete(written int64) {
	if n.Permits > 0 && n.Set == 0 {
		n.Set, n.Perhaps = written, written
	}
}

// sound: it can have been written at that revision. One of another cluster, whose keys were copied, can have later
// revisions: by these all would be held.
func (n *number) sound(written int64) bool {
	return min(n.Held, n.Perhaps) >= 0 && max(n.Held, n.Perhaps) <= n.Set && n.Set <= written &&
		n.Permits >= min(n.Held, 1) && n.Permits <= driver.MaxCapacity // nobody was held by a number that is not known
}

// open: nobody has found out who was held when the number was set.
func (n *number) open() bool { return n.Permits > 0 && n.Perhaps == n.Set }

// permits is the number that is in force; 0: none is, and each ticket says it.
func (ln *line) permits() int64 {
	if ln == nil || ln.number.Unset && (len(ln.tickets) == 0 || ln.tickets[0].created > ln.number.Set) {
		return 0
	}
	return ln.number.Permits
}

// unfit: it waits for more than there can be, or says another number.
func (ln *line) unfit(t *ticket) bool {
	n := ln.permits()
	return n > 0 && t.created > max(ln.number.Held, ln.number.Perhaps) && (ln.odd(t) || t.Kind == driver.Semaphore && t.Units > n)
}

// numbers does what is left to do of the numbers of permits of the queues that a look has read: it has waiters leave that can never
// fit, and a heartbeat finds out who was held. If it fails, the next look tries again: these queues are not the only ones of the client.
func (l *look) numbers(ctx context.Context) {
	for _, q := range l.queues {
		if len(q.unfits) > 0 {
			gone, _ := l.s.removeUnfit(ctx, q.kept, q.unfits)
			for _, t := range l.seen {
				if slices.Contains(gone, t.ticket) {
					l.found[t.i] = exchange.Status{}
				}
			}
		}
	}
	for name, q := range l.queues {
		if q.number.open() && !l.watch {
			_, _ = l.s.findHeld(ctx, name, q.kept)
		}
	}
}

// marked is the mark for a ticket that is granted. That of one that stands beside it says nothing of a death: it had all permits
// when they were fewer.
func (q *queue) marked(t *ticket) mark {
	m := q.mark
	if slices.ContainsFunc(q.tickets, func(o *ticket) bool { return o.id == m.ID }) {
		m.ID = t.id
	}
	return m
}

// Resize sets a number of permits, or takes it back. It is in force from the first change on. The others, which say who was held
// then, and remove who can never fit, may be made by anybody.
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

// findHeld completes a number that was set: it writes who was held then. The line that it returns is the one of then, with
// what the queue keeps now. If that was compacted, it is written that nobody can find it out.
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

// removeUnfit removes tickets that wait for more than there can be, unless another number is set by then, and says which it has
// removed.
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
