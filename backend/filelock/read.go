//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"slices"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Read(ctx context.Context, name string, f exchange.Follower) (snap exchange.Snapshot, err error) {
	err = s.change(ctx, name, func(q *queue) error {
		snap = q.Read(f)
		snap.Version = "" // the client computes it from all members
		others := s.foreign(q)
		for i, t := range q.Tickets {
			if t.Held && t.PID == 0 && flocked(q.Kind) && len(others) > 0 {
				snap.Members[i].Held, snap.Members[i].Token = false, 0
			}
		}
		if len(others) > 0 && len(q.Tickets) == 0 && !q.Resized {
			snap.Kind, snap.Capacity = driver.Mutex, 1
		}
		for _, m := range others {
			m.Units = min(m.Units, snap.Capacity)
			snap.Members = append(snap.Members, m)
		}
		rank := map[bool]int{true: 0, false: 1} // holders are in front of waiters
		slices.SortStableFunc(snap.Members, func(a, b driver.Member) int { return rank[a.Held] - rank[b.Held] })
		return nil
	})
	return snap, err
}

// List reads queues that have a row, and files that other programs have locked.
func (s *store) List(ctx context.Context, prefix, from string) (list []exchange.Snapshot, next string, err error) {
	next, err = s.page(ctx, queues, prefix, from, s.foreignNames(prefix), func(ctx context.Context, name string) error {
		q, err := s.Read(ctx, name, exchange.Follower{})
		if len(q.Members) > 0 {
			list = append(list, q)
		}
		return err
	})
	return list, next, err
}

// page reads rows of a folder, and what is named besides. What cannot be read hides no other.
func (s *store) page(
	ctx context.Context, folder, prefix, from string, more []string, read func(ctx context.Context, name string) error,
) (next string, err error) {
	all, bad := s.names(ctx, folder, prefix)
	names := slices.Compact(slices.Sorted(slices.Values(append(all, more...))))
	names = slices.DeleteFunc(names, func(name string) bool { return name <= from })
	if len(names) > perPage {
		names = names[:perPage]
		next = names[perPage-1]
	}
	for _, name := range names {
		bad.ask(ctx, name, func(ctx context.Context) error { return read(ctx, name) })
		if err := ctx.Err(); err != nil {
			return "", err
		}
	}
	return next, bad.err()
}

const perPage = 1000
