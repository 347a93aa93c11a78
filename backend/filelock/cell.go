//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"slices"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// cell is the row of a cell.
type cell struct {
	Name string
	driver.Cell
	Swaps     []swapped
	Followers []string // mailboxes
}

// swapped is the result of a Swap.
type swapped struct {
	ID string
	driver.Cell
	Conflict bool
	End      moment // until then it is kept
}

func (r *cell) fields(c *codec) {
	textOf(c, &r.Name)
	cellOf(c, &r.Cell)
	listOf(c, &r.Followers, mailboxOf)
	listOf(c, &r.Swaps, func(c *codec, s *swapped) {
		textOf(c, &s.ID)
		cellOf(c, &s.Cell)
		flagOf(c, &s.Conflict)
		numberOf(c, &s.End)
	})
}

func cellOf(c *codec, v *driver.Cell) {
	numberOf(c, &v.Version)
	flagOf(c, &v.Exists)
	textOf(c, &v.Value)
}

// Load is a transaction, since it may note a follower.
func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	c := cell{Name: name}
	err := s.transact(ctx, cells, escape(name), &c, func(x *tx) error {
		x.follow(&c.Followers, f)
		return nil
	})
	return c.Cell, err
}

func (s *store) Swap(ctx context.Context, swap driver.Swap) (result driver.Cell, err error) {
	c := cell{Name: swap.Name}
	err = s.transact(ctx, cells, escape(swap.Name), &c, func(x *tx) error {
		c.Swaps = slices.DeleteFunc(c.Swaps, func(old swapped) bool { return old.End <= x.now || x.rebooted })
		i := slices.IndexFunc(c.Swaps, func(old swapped) bool { return old.ID == swap.ID })
		if i < 0 {
			done := swapped{ID: swap.ID, Conflict: c.Version != swap.Version, End: x.now.add(driver.SwapMemory)}
			if !done.Conflict {
				c.Cell = driver.Cell{Version: c.Version + 1, Exists: !swap.Delete}
				if c.Exists {
					c.Value = swap.Value
				}
				done.Cell = c.Cell
				x.tell(&c.Followers, exchange.Event{Type: exchange.CellChanged, Cell: c.Name})
			}
			i, c.Swaps = len(c.Swaps), append(c.Swaps, done)
			x.changed, x.durable = true, true
		}
		done := c.Swaps[i]
		if done.Conflict {
			return driver.ErrConflict
		}
		result = done.Cell
		return nil
	})
	return result, err
}

// Cells lists the cells that exist, and those that cannot be read: whoever loads these is told why.
func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	all, bad := s.names(ctx, cells, prefix)
	page, next := pageOf(all, from)
	for _, name := range page {
		c, err := s.Load(ctx, name, exchange.Follower{})
		if err != nil && ctx.Err() != nil {
			return nil, "", err
		}
		if c.Exists || err != nil {
			names = append(names, name)
		}
	}
	return names, next, bad.err()
}
