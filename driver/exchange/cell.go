package exchange

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// Load reads a cell.
func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	return d.load(ctx, name, Follower{})
}

func (d *Driver) load(ctx context.Context, name string, f Follower) (driver.Cell, error) {
	return call(ctx, d, func(ctx context.Context) (driver.Cell, error) {
		c, err := d.store.Load(ctx, name, f)
		if err == nil && len(c.Value) > driver.MaxCell {
			return driver.Cell{}, driver.Permanent(fmt.Errorf("the value of %q is longer than any that is written here, of %d bytes: remove it by the backend's own client", name, driver.MaxCell))
		}
		return c, err
	})
}

// Swap changes a cell.
func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return callStore(ctx, d, Store.Swap, s)
}
