package exchange

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// withdrawals gathers the Leaves of tickets that wait: those of one queue that come while
// an exchange is under way share the next one. So a crowd that gives up is out of the way
// soon: a grant to one of them is in vain, and the queue stands until it has left.
type withdrawals struct {
	mu   sync.Mutex
	open map[withdrawing]map[string]*withdrawal // by ID of the ticket; one that is empty: an exchange is under way
}

// withdrawing is what tickets have in common that leave in one exchange.
type withdrawing struct {
	s     *session
	queue string
	clean bool
}

// withdrawal is a ticket that is to leave.
type withdrawal struct {
	done chan struct{} // closed when it has an answer
	err  error
}

// perWithdraw bounds the tickets of one exchange.
const perWithdraw = 100

// withdraw has a ticket leave that waits, soon. If ctx ends before that, it leaves all the
// same.
func (s *session) withdraw(ctx context.Context, t Ref, clean bool) error {
	of := withdrawing{s, t.Queue, clean}
	all := &s.d.withdrawals
	all.mu.Lock()
	gathered, begun := all.open[of]
	if !begun {
		if all.open == nil {
			all.open = map[withdrawing]map[string]*withdrawal{}
		}
		gathered = map[string]*withdrawal{}
		all.open[of] = gathered
	}
	w := gathered[t.ID]
	if w == nil {
		w = &withdrawal{done: make(chan struct{})}
		gathered[t.ID] = w
	}
	all.mu.Unlock()
	if !begun {
		s.d.background(func(ctx context.Context) { s.d.withdrawAll(ctx, of) })
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
func (d *Driver) withdrawAll(ctx context.Context, of withdrawing) {
	for {
		ids, some := d.withdrawals.take(of)
		if len(ids) == 0 {
			return
		}
		d.withdrawSome(ctx, of, ids, some)
	}
}

func (d *Driver) withdrawSome(ctx context.Context, of withdrawing, ids []string, some []*withdrawal) {
	ctx, cancel := context.WithTimeout(withWithdrawal(ctx), backgroundTimeout)
	defer cancel()
	type answer struct {
		gone []bool
		left Left
	}
	got, err := ask(ctx, d, func(ctx context.Context) (a answer, err error) {
		a.gone, a.left, err = d.store.Withdraw(ctx, of.s.id, of.queue, ids, of.clean)
		return a, err
	})
	for i, w := range some {
		if w.err = err; err == nil && got.gone[i] {
			w.err = driver.ErrGone
		}
		close(w.done)
	}
	if got.left.More {
		d.settle(of.queue)
	}
}

// take is what the next exchange is for. If that is nothing, the next withdrawal begins anew.
func (all *withdrawals) take(of withdrawing) (ids []string, some []*withdrawal) {
	all.mu.Lock()
	defer all.mu.Unlock()
	gathered := all.open[of]
	for id, w := range gathered {
		if len(ids) == perWithdraw {
			break
		}
		ids, some = append(ids, id), append(some, w)
		delete(gathered, id)
	}
	if len(ids) == 0 {
		delete(all.open, of)
	}
	return ids, some
}
