package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
)

// Resize writes the capacity to a key of its own, which each Join reads, and anew into the tickets of
// the queue: so those that wait are woken. The key, the holders, and as many waiters as a transaction takes are
// changed together, if none of them has left and nobody else can be held since the queue was read:
// else one could have been granted by the old capacity that is not known to be held. The other waiters follow.
// They are kept out until then, since tickets of two capacities keep each other out.
func (s *store) Resize(ctx context.Context, name string, capacity int64) (unsettled bool, err error) {
	for range attempts * attempts {
		b, key, ln, have := s.batch(), s.permits(name), line{}, kvs(nil)
		b.get(key, func(all kvs) { have = all })
		b.add(s.front(name, 0, perPage, true), func(r *pb.RangeResponse) { s.readLine(&ln, name, r) })
		if err := b.run(ctx); err != nil {
			return false, err
		}
		if len(ln.tickets) > 0 && (ln.tickets[0].foreign || ln.tickets[0].Kind != driver.Semaphore) {
			return false, driver.ErrMismatch
		}
		changed := int64(0)
		if len(have) > 0 {
			changed = have[0].ModRevision
		}
		when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", changed)}
		then := []clientv3.Op{clientv3.OpDelete(key)}
		all := true
		if capacity > 0 {
			then = []clientv3.Op{clientv3.OpPut(key, strconv.FormatInt(capacity, 10))}
			var waits bool // so that nobody behind what is known is held
			if all, waits, err = s.resizeFront(ctx, &ln, capacity, &when, &then); err != nil {
				return false, err
			}
			if prefix := s.queue(name); !waits {
				when = append(when, clientv3.Compare(clientv3.CreateRevision(prefix), "<", b.revision+1).WithRange(clientv3.GetPrefixRangeEnd(prefix)))
			}
		}
		switch got, err := s.change(ctx, when, then, nil); {
		case errors.Is(err, rpctypes.ErrLeaseNotFound): // a ticket has just ended with its lease
			_ = s.forget(err)
		case err != nil || got.Succeeded && all:
			return false, err
		case got.Succeeded:
			return false, s.resizeRest(ctx, name, capacity, got.Header.Revision)
		}
	}
	return false, errChanged
}

var errChanged = errors.New("etcd: the queue was changed by others again and again")

// resizeFront adds what changes the front of a queue, and says whether that is all of it, and whether a waiter
// is in it.
func (s *store) resizeFront(ctx context.Context, ln *line, capacity int64, when *[]clientv3.Cmp, then *[]clientv3.Op) (all, waits bool, err error) {
	for i, t := range ln.tickets {
		held := ln.place(t).held
		ops, err := s.resized(ctx, t, capacity, held, ln.tickets[0])
		switch {
		case err != nil:
			return false, false, err
		case len(*then)+len(ops) > maxOps || len(*when)+2 > maxOps:
			if held {
				return false, false, fmt.Errorf("etcd: the number of permits of %q cannot be changed while more than %d hold: one transaction has no more operations", t.queue, i)
			}
			*when = append(*when, clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed))
			return false, true, nil
		}
		waits = waits || !held
		*when = append(*when, clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed))
		*then = append(*then, ops...)
	}
	// Behind a waiter others may have come, which the next reading finds.
	return ln.whole && !waits, waits, nil
}

// resizeRest changes the waiters that still have another capacity, until another Resize does so.
func (s *store) resizeRest(ctx context.Context, name string, capacity, since int64) error {
	for failed := 0; failed < attempts*attempts; {
		var ln line
		for !ln.whole {
			if err := s.lengthen(ctx, &ln, name); err != nil {
				return err
			}
		}
		when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.permits(name)), "=", since)}
		var then []clientv3.Op
		for _, t := range ln.tickets {
			if t.foreign || t.Kept || t.Kind != driver.Semaphore || t.Capacity == capacity {
				continue
			}
			ops, err := s.resized(ctx, t, capacity, false, t)
			if err != nil {
				return err
			}
			if len(then)+len(ops) > maxOps || len(when)+1 > maxOps {
				break
			}
			when = append(when, clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed))
			then = append(then, ops...)
		}
		if len(then) == 0 {
			return nil
		}
		got, err := s.change(ctx, when, then, []clientv3.Op{clientv3.OpGet(s.permits(name))})
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			_ = s.forget(err)
			failed++
		case err != nil:
			return err
		case !got.Succeeded:
			if now := got.Responses[0].GetResponseRange().Kvs; len(now) == 0 || now[0].ModRevision != since {
				return nil
			}
			failed++
		}
	}
	return errChanged
}

// resized is what changes a ticket. One that waits for more than there will be leaves, as one that is
// evicted. One that disagrees with the first of its queue is about to leave by itself.
func (s *store) resized(ctx context.Context, t *ticket, capacity int64, held bool, first *ticket) ([]clientv3.Op, error) {
	if t.foreign || t.Kind != first.Kind || t.Capacity != first.Capacity {
		return nil, nil
	}
	r := *t
	r.Capacity, r.Kept = capacity, held
	if held || r.Units <= capacity {
		return []clientv3.Op{s.rewrite(&r, t.lease)}, nil
	}
	bury, err := s.spare(ctx, t.TTL)
	if err != nil {
		return nil, err
	}
	ops := s.removal(t, false, false)
	ops[1] = s.demands(t, driver.Force)
	return append(ops, clientv3.OpPut(s.tombstone(t.id), "", clientv3.WithLease(bury))), nil
}

// behind reports whether a waiter still has another capacity than its queue keeps. By that it could
// seem to be held.
func (q *queue) behind(t *ticket) bool {
	return q.permits > 0 && !t.foreign && !t.Kept && t.Capacity != q.permits
}

// catchUp changes such a ticket: whoever has set the number has not come to that yet, or has ended before.
func (s *store) catchUp(ctx context.Context, t *ticket, capacity int64) error {
	ops, err := s.resized(ctx, t, capacity, false, t)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(t.key), "=", t.changed)}, ops, nil)
	return s.forget(err)
}

// readPermits reads the key of that name; 0: there is none.
func readPermits(all kvs) (capacity int64, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	capacity, err = strconv.ParseInt(string(all[0].Value), 10, 64)
	if err != nil || capacity < 1 || capacity > driver.MaxCapacity {
		return 0, driver.Permanent(fmt.Errorf("the key %s is not a number of permits: run interlock permits", all[0].Key))
	}
	return capacity, nil
}

// keeps reports whether a queue keeps a capacity, by the key of that. It is an error if that is another
// one than that of a new ticket.
func keeps(all kvs, t *ticket) (kept bool, err error) {
	capacity, err := readPermits(all)
	if err == nil && capacity > 0 && (t.Kind != driver.Semaphore || t.Capacity != capacity) {
		err = driver.ErrMismatch
	}
	return capacity > 0, err
}
