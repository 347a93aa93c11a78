//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Renew makes a transaction of each queue.
func (s *store) Renew(ctx context.Context, of exchange.Session, refs []exchange.Ref, extend int) (exchange.Renewal, error) {
	if s.copied(of.ID) {
		return exchange.Renewal{}, driver.ErrSession
	}
	named := map[exchange.Ref]bool{}
	for _, ref := range refs[:extend] {
		named[ref] = true
	}
	all, err := s.look(ctx, of, refs, named)
	return exchange.Renewal{Tickets: all}, err
}

func (s *store) Look(ctx context.Context, of exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	return s.look(ctx, of, refs, nil)
}

// look reads the status of tickets, for a heartbeat after it has extended those that are named. If
// a queue cannot be read, the others can.
func (s *store) look(ctx context.Context, of exchange.Session, refs []exchange.Ref, named map[exchange.Ref]bool) (all []exchange.Status, err error) {
	all = make([]exchange.Status, len(refs)) // each is gone
	in := map[string][]int{}
	var order []string
	for i, ref := range refs {
		if in[ref.Queue] == nil {
			order = append(order, ref.Queue)
		}
		in[ref.Queue] = append(in[ref.Queue], i)
	}
	read := 0
	for _, queue := range order {
		failed := s.change(ctx, queue, func(x *queueTx) error {
			for _, i := range in[queue] {
				t := x.find(refs[i].ID)
				extend := named[refs[i]]
				if t != nil && extend && t.Session.ID == of.ID && !s.locks.intact(t.ID) {
					x.drop(t, false)
				}
				if x.Look(of, refs[i].ID, extend).State == exchange.Gone {
					continue
				}
				all[i] = x.status(t)
				all[i].Stray = named != nil && !extend && !t.Fixed
			}
			return x.unlockable
		})
		if failed == nil {
			read++
			continue
		}
		err = errors.Join(err, failed)
		for _, i := range in[queue] {
			all[i] = exchange.Status{State: exchange.NotAsked}
		}
	}
	if read > 0 {
		err = nil
	}
	return all, err
}
