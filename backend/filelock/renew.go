//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"

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

// look reads the status of tickets, for a heartbeat after it has extended the first of them. If a queue
// cannot be read, the others can.
func (s *store) look(ctx context.Context, of exchange.Session, refs []exchange.Ref, extend int) (all []exchange.Status, err error) {
	all = make([]exchange.Status, len(refs)) // each is gone
	in := map[string][]int{}
	for i, ref := range refs {
		in[ref.Queue] = append(in[ref.Queue], i)
	}
	failures := 0
	for name, tickets := range in {
		failed := s.change(ctx, name, func(q *queue) error {
			for _, i := range tickets {
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
		if failed == nil {
			continue
		}
		failures++
		err = failed
		for _, i := range tickets {
			all[i] = exchange.Status{State: exchange.NotAsked}
		}
	}
	if failures < len(in) {
		err = nil
	}
	return all, err
}
