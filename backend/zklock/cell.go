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
		s.unfollow(f.Topic)
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
		path := s.cellPath(w.Name)
		done, err := s.swap(ctx, l, w.ID, path, false, func() (any, error) { return s.swapOp(ctx, l, path, &w) })
		if err != nil {
			return err
		}
		s.tidySwaps(ctx, l, done.Ctime)
		cell = driver.Cell{Version: uint64(done.Czxid), Exists: !w.Delete}
		if cell.Exists {
			cell.Value = w.Value
		}
		return nil
	})
	return cell, err
}

// swapOp is what changes a cell. It is ErrConflict if the cell is not as the caller has seen it.
func (s *store) swapOp(ctx context.Context, l *link, path string, w *driver.Swap) (any, error) {
	data := []byte{cellDeleted}
	if !w.Delete {
		data = append([]byte{cellValue}, w.Value...)
	}
	c, err := l.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode) && w.Version == 0:
		return &zk.Create{Path: path, Data: data, Acl: s.acl, Flags: zk.Persistent}, nil
	case zk.Unless(err, zk.ErrNoNode) != nil:
		return nil, err
	case err != nil || uint64(c.Stat.Mzxid) != w.Version:
		return nil, driver.ErrConflict
	}
	return &zk.Write{Path: path, Data: data, Version: c.Stat.Version}, nil
}

// swap makes the change that op says, which is asked again, and a marker in the same transaction, and returns the stat of
// that. A container is a node above the path that the server removes when it is empty.
func (s *store) swap(ctx context.Context, l *link, id, path string, container bool, op func() (any, error)) (*zk.Stat, error) {
	marker := s.aside("swaps", id)
	for attempts := 0; ; attempts++ {
		done, err := l.Get(ctx, marker)
		if !errors.Is(err, zk.ErrNoNode) {
			return done.Stat, err
		}
		change, err := op()
		if errors.Is(err, driver.ErrConflict) && attempts == 0 { // the server may lag behind, or this Swap was done just now
			if err := l.CatchUp(ctx, path); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		_, err = l.Multi(ctx, &zk.Create{Path: marker, Acl: s.acl, Flags: zk.Persistent}, change)
		switch {
		case err == nil:
			s.remember(id)
		case errors.Is(err, zk.ErrNoNode) && attempts < 5:
			if err := s.lay(ctx, l, parent(marker), false); err != nil {
				return nil, err
			}
			if above := parent(path); above != "" {
				if err := s.lay(ctx, l, above, container && len(above) > len(s.root)); err != nil {
					return nil, err
				}
			}
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNotEmpty):
			if attempts > 5 { // others were faster, again and again
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

const (
	sweepEvery = time.Minute
	sweepMost  = 64 // markers that are looked at: clients at work have many
	sweepFirst = 250 * time.Millisecond
)

// tidySwaps removes the markers of this client that are old enough, and now and then some of clients that have ended.
// These are dated by the clock of the server. The first Swap of a client waits for that, for a moment, since many clients
// end after one.
func (s *store) tidySwaps(ctx context.Context, l *link, present int64) {
	now := driver.Now()
	s.mu.Lock()
	n := 0
	for n < len(s.swaps) && s.swaps[n].at < now.Add(-s.memory) {
		n++
	}
	old := s.swaps[:n]
	s.swaps = s.swaps[n:]
	first := s.swept == 0
	due := first || now.Sub(s.swept) > sweepEvery
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	remove := func(ctx context.Context) {
		for _, o := range old {
			if zk.Unless(l.Remove(ctx, s.aside("swaps", o.id)), zk.ErrNoNode) != nil {
				return
			}
		}
		if due {
			s.removeSwaps(ctx, l, present)
		}
	}
	switch {
	case first:
		ctx, cancel := context.WithTimeout(ctx, sweepFirst)
		defer cancel()
		remove(ctx)
	case due || n > 0:
		s.background(remove)
	}
}

// removeSwaps removes markers of other clients.
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
