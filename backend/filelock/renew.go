//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Renew makes a transaction of each queue.
func (s *store) Renew(ctx context.Context, of exchange.Session, refs []exchange.Ref, extend int) (exchange.Renewal, error) {
	if s.copied(of.ID) {
		return exchange.Renewal{}, driver.ErrSession
	}
	all, err := s.look(ctx, of, refs, extend)
	for i := extend; i < len(all); i++ {
		all[i].Stray = !all[i].Fixed
	}
	return exchange.Renewal{Tickets: all}, err
}

func (s *store) Look(ctx context.Context, of exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	return s.look(ctx, of, refs, 0)
}

// turn is how long a heartbeat waits for one queue before it asks about the others.
const turn = 5 * time.Millisecond

// look reads the status of tickets, for a heartbeat after it has extended the first of them. If a queue cannot be read,
// the others can. Another process may have stopped while it has locked a queue: this one is asked about last, and for
// half of the time that is left, so that there is an answer of the others.
func (s *store) look(ctx context.Context, of exchange.Session, refs []exchange.Ref, extend int) (all []exchange.Status, err error) {
	all = make([]exchange.Status, len(refs)) // each is gone
	in := map[string][]int{}
	for i, ref := range refs {
		in[ref.Queue] = append(in[ref.Queue], i)
	}
	ask := func(ctx context.Context, name string) error {
		return s.change(ctx, name, func(q *queue) error {
			for _, i := range in[name] {
				t := q.find(refs[i].ID)
				if t != nil && i < extend && t.Session.ID == of.ID && !s.locks.intact(t.ID) {
					q.drop(t, false)
				}
				if all[i] = q.Look(of, refs[i].ID, i < extend); all[i].State != exchange.Gone {
					all[i] = q.status(t)
				}
			}
			return q.unlockable
		})
	}
	failed, late := map[string]error{}, []string{}
	for name := range in {
		short, cancel := context.WithTimeout(ctx, turn)
		if err := ask(short, name); errors.Is(err, context.DeadlineExceeded) {
			late = append(late, name)
		} else if err != nil {
			failed[name] = err
		}
		cancel()
	}
	if end, ok := ctx.Deadline(); ok && len(late) < len(in) {
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = half
	}
	var mu sync.Mutex
	var waiting sync.WaitGroup
	for _, name := range late {
		waiting.Go(func() {
			if err := ask(ctx, name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = err
			}
		})
	}
	waiting.Wait()
	for name, why := range failed {
		for _, i := range in[name] {
			all[i] = exchange.Status{State: exchange.NotAsked}
		}
		err = why
	}
	if len(failed) < len(in) {
		err = nil
	}
	return all, err
}
