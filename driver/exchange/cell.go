package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Load reads a cell.
func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	return d.load(ctx, name, Follower{})
}

func (d *Driver) load(ctx context.Context, name string, f Follower) (driver.Cell, error) {
	return call(ctx, d, func(ctx context.Context) (driver.Cell, error) { return d.store.Load(ctx, name, f) })
}

// Swap changes a cell.
func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return callStore(ctx, d, Store.Swap, s)
}
