//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"maps"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// cell is the row of a cell.
type cell struct {
	Name string
	driver.Cell
	Swaps     map[string]swapped // by ID
	Followers []string           // mailboxes
	Boot      string             // of the machine, when the row was written
}

type swapped struct {
	driver.Cell
	Conflict bool
	End      moment
}

// Load is a transaction, since it may note a follower.
func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	c := cell{Name: name}
	err := s.transact(ctx, cells, name, &c, func(x *tx) error {
		x.follow(&c.Followers, f)
		return nil
	})
	return c.Cell, err
}

func (s *store) Swap(ctx context.Context, swap driver.Swap) (result driver.Cell, err error) {
	c := cell{Name: swap.Name}
	err = s.transact(ctx, cells, swap.Name, &c, func(x *tx) error {
		maps.DeleteFunc(c.Swaps, func(_ string, old swapped) bool { return old.End <= x.now || c.Boot != s.clock.Boot })
		done, again := c.Swaps[swap.ID]
		if !again {
			done = swapped{Conflict: c.Version != swap.Version, End: x.now.add(driver.SwapMemory)}
			if !done.Conflict {
				c.Cell = driver.Cell{Version: c.Version + 1, Exists: !swap.Delete}
				if c.Exists {
					c.Value = swap.Value
				}
				done.Cell = c.Cell
				x.tell(&c.Followers, exchange.Event{Type: exchange.CellChanged, Cell: c.Name})
			}
			if c.Swaps == nil {
				c.Swaps = map[string]swapped{}
			}
			c.Swaps[swap.ID], c.Boot = done, s.clock.Boot
			x.changed, x.durable = true, true
		}
		if done.Conflict {
			return driver.ErrConflict
		}
		result = done.Cell
		return nil
	})
	return result, err
}

// Cells lists the cells that exist.
func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	all, err := s.dir.names(cells, prefix)
	page, next := pageOf(all, from)
	for _, name := range page {
		c, err := s.Load(ctx, name, exchange.Follower{})
		if err != nil {
			return nil, "", err
		}
		if c.Exists {
			names = append(names, name)
		}
	}
	return names, next, err
}
