package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/follow"
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

// Watch waits for another version of a cell.
func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	var limit readLimit
	c, err := limited(ctx, &limit, func(ctx context.Context) (driver.Cell, error) { return d.Load(ctx, name) })
	if err == nil && c.Version != after || driver.IsPermanent(err) {
		return c, err
	}
	defer d.expectEvents()()
	return d.topics.Cell(ctx, name, after, func(t *follow.Topic) (driver.Cell, error) {
		return limited(ctx, &limit, func(ctx context.Context) (driver.Cell, error) { return d.load(ctx, name, d.follower(t)) })
	})
}
