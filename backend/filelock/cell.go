//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// cell is the row of a cell.
type cell struct{ rows.Cell }

func (r *cell) fields(c *rows.Codec) { r.Fields(c) }

// changeCell makes a transaction of a cell.
func (s *store) changeCell(ctx context.Context, name string, f func(x *tx, r *cell) error) error {
	r := cell{rows.Cell{Name: name}}
	return s.transact(ctx, cells, escape(name), &r, func(x *tx) error {
		if x.rebooted {
			r.Swaps = nil
		}
		x.exchange = rows.Begin(&r, x.now)
		return f(x, &r)
	})
}

// Load is a transaction, since it may note a follower.
func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (c driver.Cell, err error) {
	err = s.changeCell(ctx, name, func(_ *tx, r *cell) error {
		c = r.Load(f)
		return nil
	})
	return c, err
}

func (s *store) Swap(ctx context.Context, swap driver.Swap) (c driver.Cell, err error) {
	err = s.changeCell(ctx, swap.Name, func(x *tx, r *cell) (err error) {
		c, err = r.Swap(swap)
		x.durable = true
		return err
	})
	return c, err
}

// Cells lists the cells that exist, and those that cannot be read: whoever loads these is told why.
func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	next, err = s.page(ctx, cells, prefix, from, nil, func(ctx context.Context, name string) error {
		c, err := s.Load(ctx, name, exchange.Follower{})
		if c.Exists || err != nil {
			names = append(names, name)
		}
		return ctx.Err()
	})
	return names, next, err
}
