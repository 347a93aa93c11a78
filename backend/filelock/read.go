//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"slices"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Read(ctx context.Context, queue string, f exchange.Follower) (snap exchange.Snapshot, err error) {
	err = s.change(ctx, queue, func(x *queueTx) error {
		snap = x.Read(f)
		snap.Version = "" // the client computes it from all members
		others := s.foreign(x.queue)
		for i, t := range x.Tickets {
			if t.Held && x.pids[t.ID] == 0 && flocked(x.Kind) && len(others) > 0 {
				snap.Members[i].Held, snap.Members[i].Token = false, 0
			}
		}
		if len(others) > 0 && len(x.Tickets) == 0 && !x.Resized {
			snap.Kind, snap.Capacity = driver.Mutex, 1
		}
		for _, m := range others {
			m.Units = min(m.Units, snap.Capacity)
			snap.Members = append(snap.Members, m)
		}
		slices.SortStableFunc(snap.Members, func(a, b driver.Member) int { return rank(a) - rank(b) })
		return nil
	})
	return snap, err
}

// rank puts holders in front of waiters.
func rank(m driver.Member) int {
	if m.Held {
		return 0
	}
	return 1
}

// List reads queues that have a row, and files that other programs have locked.
func (s *store) List(ctx context.Context, prefix, from string) (list []exchange.Snapshot, next string, err error) {
	all, bad := s.names(ctx, queues, prefix)
	names, next := pageOf(append(all, s.foreignNames(prefix)...), from)
	for _, name := range names {
		q, err := s.Read(ctx, name, exchange.Follower{})
		if err != nil && ctx.Err() != nil {
			return nil, "", err
		}
		if bad.add(err); len(q.Members) > 0 {
			list = append(list, q)
		}
	}
	return list, next, bad.err()
}

// pageOf returns the first names after from, and where the next page goes on.
func pageOf(names []string, from string) (page []string, next string) {
	const most = 1000
	slices.Sort(names)
	names = slices.Compact(names)
	i, found := slices.BinarySearch(names, from)
	if found {
		i++
	}
	if page = names[i:]; len(page) > most {
		page = page[:most]
		next = page[most-1]
	}
	return page, next
}
