package exchange

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// withdrawals gathers the Leaves of waiters: those of one queue that come while an exchange is
// under way share the next one. So a crowd that gives up is gone soon. A grant to one of them is
// in vain, and the queue stands still until that ticket has left.
type withdrawals struct {
	mu      sync.Mutex
	batches map[batchKey]map[string]*withdraw // by ID of the ticket; an empty one: an exchange is under way
}

// batchKey is what tickets have in common that leave in one exchange.
type batchKey struct {
	s     *session
	queue string
	clean bool
}

// withdraw is a ticket that is to leave.
type withdraw struct {
	done chan struct{} // closed when it has a result
	err  error
}

// perWithdraw bounds the tickets of one exchange.
const perWithdraw = 100

// withdraw has a waiter leave with the next exchange. If ctx ends before that, it leaves all the
// same.
func (s *session) withdraw(ctx context.Context, t Ref, clean bool) error {
	key := batchKey{s, t.Queue, clean}
	all := &s.d.withdrawals
	all.mu.Lock()
	batch, underWay := all.batches[key]
	if !underWay {
		batch = map[string]*withdraw{}
		all.batches[key] = batch
	}
	w := batch[t.ID]
	if w == nil {
		w = &withdraw{done: make(chan struct{})}
		batch[t.ID] = w
	}
	all.mu.Unlock()
	if !underWay {
		s.d.background(func(ctx context.Context) { s.d.withdrawAll(ctx, key) })
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return s.d.failed(ctx, ctx.Err())
	case <-s.d.ctx.Done():
		return errClosed
	}
}

// withdrawAll makes exchanges until nothing more was gathered.
func (d *Driver) withdrawAll(ctx context.Context, key batchKey) {
	for {
		ids, some := d.withdrawals.take(key)
		if len(ids) == 0 {
			return
		}
		d.withdrawSome(ctx, key, ids, some)
	}
}

func (d *Driver) withdrawSome(ctx context.Context, key batchKey, ids []string, some []*withdraw) {
	ctx, cancel := context.WithTimeout(d.with(ctx, withdrawal), backgroundTimeout)
	defer cancel()
	type result struct {
		gone      []bool
		unsettled bool
	}
	got, err := call(ctx, d, func(ctx context.Context) (r result, err error) {
		r.gone, r.unsettled, err = d.batches.Withdraw(ctx, key.s.row, key.queue, ids, key.clean)
		return r, err
	})
	for i, w := range some {
		if w.err = err; err == nil && got.gone[i] {
			w.err = driver.ErrGone
		}
		close(w.done)
	}
	if got.unsettled {
		d.settle(key.queue)
	}
}

// take returns what the next exchange is for. If that is nothing, the next withdrawal starts anew.
func (all *withdrawals) take(key batchKey) (ids []string, some []*withdraw) {
	all.mu.Lock()
	defer all.mu.Unlock()
	batch := all.batches[key]
	for id, w := range batch {
		if len(ids) == perWithdraw {
			break
		}
		ids, some = append(ids, id), append(some, w)
		delete(batch, id)
	}
	if len(ids) == 0 {
		delete(all.batches, key)
	}
	return ids, some
}
