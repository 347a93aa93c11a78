package zklock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// A cell is a node whose data begins with a letter: a value follows, or none
// exists. Its version is the transaction that changed it last, which never comes
// back. Each Swap makes, in the same transaction, a node of its ID, by which it is
// recognised if it is repeated.
const (
	cellValue   = 'v'
	cellDeleted = 'd'
)

func (s *store) cellPath(name string) string { return s.aside("cells", flat(name)) }

// cellOf reads a cell. What no Swap has written is neither a value nor none.
func cellOf(path string, c zk.Content) (driver.Cell, error) {
	out := driver.Cell{Version: uint64(c.Stat.Mzxid)}
	switch {
	case len(c.Data) > 0 && c.Data[0] == cellValue && len(c.Data) <= 1+driver.MaxCell:
		out.Exists, out.Value = true, c.Data[1:]
	case string(c.Data) != string(cellDeleted):
		return driver.Cell{}, driver.Permanent(fmt.Errorf("zookeeper: %s is no value as it was written (zkCli.sh: set %s %c deletes it)", path, path, cellDeleted))
	}
	return out, nil
}

// Load reads a cell. A server that lags behind would return an older value than another client has seen.
func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (cell driver.Cell, err error) {
	path := s.cellPath(name)
	err = s.with(ctx, func(ctx context.Context, l *link) error {
		if err := l.CatchUp(ctx, path); err != nil {
			return err
		}
		if f.Mailbox != "" {
			s.follow(f, l.Link, path, false)
			if stat, err := l.Exists(ctx, path); err != nil || stat == nil {
				return err
			}
		}
		c, err := l.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err == nil {
			cell, err = cellOf(path, c)
		}
		return err
	})
	if err != nil && f.Mailbox != "" {
		s.unfollow(f)
	}
	return cell, err
}

// Cells lists all cells and reads those with the prefix, since what was deleted has a node too.
func (s *store) Cells(ctx context.Context, prefix, _ string) (names []string, next string, err error) {
	err = s.with(ctx, func(ctx context.Context, l *link) error {
		if err := l.CatchUp(ctx, s.top()); err != nil {
			return err
		}
		all, err := l.List(ctx, s.aside("cells"), false)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for _, node := range all.Names {
			name, path := unflat(node), s.aside("cells", node)
			if !strings.HasPrefix(name, prefix) || driver.CheckCell(name) != nil {
				continue
			}
			c, err := l.Get(ctx, path)
			switch {
			case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			case err != nil:
				return err
			default:
				// One that cannot be read harms no other.
				if cell, err := cellOf(path, c); err == nil && cell.Exists {
					names = append(names, name)
				}
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		return nil
	})
	return names, "", err
}

// Swap changes a cell.
func (s *store) Swap(ctx context.Context, w driver.Swap) (cell driver.Cell, err error) {
	err = s.with(ctx, func(ctx context.Context, l *link) error {
		done, err := s.swap(ctx, l, s.cellPath(w.Name), &w)
		s.forgetSwaps(l)
		if err != nil {
			return err
		}
		s.sweepSwaps(ctx, l, done.Ctime)
		cell = driver.Cell{Version: uint64(done.Czxid), Exists: !w.Delete}
		if cell.Exists {
			cell.Value = w.Value
		}
		return nil
	})
	return cell, err
}

// swap returns the state of the marker. Marker and change have one transaction.
func (s *store) swap(ctx context.Context, l *link, path string, w *driver.Swap) (*zk.Stat, error) {
	marker := s.aside("swaps", w.ID)
	data := []byte{cellDeleted}
	if !w.Delete {
		data = append([]byte{cellValue}, w.Value...)
	}
	for attempts := 0; ; attempts++ {
		if done, err := l.Get(ctx, marker); err == nil {
			return done.Stat, nil
		} else if !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		c, err := l.Get(ctx, path)
		remember := &zk.Create{Path: marker, Acl: s.acl, Flags: zk.Persistent}
		var change any
		switch {
		case errors.Is(err, zk.ErrNoNode) && w.Version == 0:
			change = &zk.Create{Path: path, Data: data, Acl: s.acl, Flags: zk.Persistent}
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return nil, err
		case err != nil || uint64(c.Stat.Mzxid) != w.Version:
			// The server may lag behind, or this Swap was done just now.
			if attempts > 0 {
				return nil, driver.ErrConflict
			}
			if err := l.CatchUp(ctx, path); err != nil {
				return nil, err
			}
			continue
		default:
			change = &zk.Write{Path: path, Data: data, Version: c.Stat.Version}
		}
		_, err = l.Multi(ctx, remember, change)
		switch {
		case err == nil:
			done, err := l.Get(ctx, marker)
			if err != nil {
				return nil, err
			}
			s.remember(w.ID)
			return done.Stat, nil
		case errors.Is(err, zk.ErrNoNode) && attempts < 5:
			if err := s.lay(ctx, l, s.aside("swaps"), false); err != nil {
				return nil, err
			}
			if err := s.lay(ctx, l, s.aside("cells"), false); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion):
			// Somebody was faster, perhaps this Swap itself.
			if attempts > 5 {
				return nil, driver.ErrConflict
			}
		default:
			return nil, err
		}
	}
}

// swapped is a Swap whose marker is removed when nobody repeats it any more.
type swapped struct {
	id string
	at driver.Instant
}

func (s *store) remember(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swaps = append(s.swaps, swapped{id, driver.Now()})
}

// forgetSwaps removes markers that are old enough.
func (s *store) forgetSwaps(l *link) {
	before := driver.Now().Add(-s.memory)
	s.mu.Lock()
	n := 0
	for n < len(s.swaps) && s.swaps[n].at < before {
		n++
	}
	old := s.swaps[:n]
	s.swaps = s.swaps[n:]
	s.mu.Unlock()
	if n == 0 {
		return
	}
	s.background(func(ctx context.Context) {
		for _, o := range old {
			if zk.Unless(l.Remove(ctx, s.aside("swaps", o.id)), zk.ErrNoNode) != nil {
				return
			}
		}
	})
}

const (
	sweepEvery = time.Minute
	sweepMost  = 64 // markers that are looked at: clients at work have many
	sweepFirst = 250 * time.Millisecond
)

// sweepSwaps removes some markers of clients that have ended. The clock is the server's:
// it dates the markers. The first Swap of a client waits for it, for a moment, since many
// clients end after one.
func (s *store) sweepSwaps(ctx context.Context, l *link, present int64) {
	s.mu.Lock()
	now := driver.Now()
	first := s.swept == 0
	due := first || now.Sub(s.swept) > sweepEvery
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	switch {
	case first:
		ctx, cancel := context.WithTimeout(ctx, sweepFirst)
		defer cancel()
		s.removeSwaps(ctx, l, present)
	case due:
		s.background(func(ctx context.Context) { s.removeSwaps(ctx, l, present) })
	}
}

func (s *store) removeSwaps(ctx context.Context, l *link, present int64) {
	all, err := l.List(ctx, s.aside("swaps"), false)
	if err != nil {
		return
	}
	s.mu.Lock()
	own := make(map[string]bool, len(s.swaps))
	for _, o := range s.swaps {
		own[o.id] = true
	}
	s.mu.Unlock()
	all.Names = slices.DeleteFunc(all.Names, func(id string) bool { return own[id] })
	rand.Shuffle(len(all.Names), func(i, j int) { all.Names[i], all.Names[j] = all.Names[j], all.Names[i] })
	oldest := present - s.memory.Milliseconds()
	several(min(len(all.Names), sweepMost), 16, func(i int) {
		path := s.aside("swaps", all.Names[i])
		if c, err := l.Get(ctx, path); err == nil && c.Stat.Ctime < oldest {
			_ = l.Remove(ctx, path)
		}
	})
}
