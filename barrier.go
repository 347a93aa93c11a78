package interlock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Barrier keeps everybody waiting from Set until Remove. It survives its
// users.
//
// While the backend cannot be reached, its methods wait as those of [Value] do: with a
// context without an end for ever.
type Barrier struct{ cell cell }

// Barrier makes a barrier.
func (c *Client) Barrier(name string) *Barrier { return &Barrier{c.cell("barrier", name)} }

// Set closes the barrier; closing a closed one changes nothing.
func (b *Barrier) Set(ctx context.Context) error {
	_, _, err := b.cell.create(ctx, nil)
	return b.cell.fail("set", err)
}

// Remove opens the barrier; opening an open one changes nothing.
func (b *Barrier) Remove(ctx context.Context) error {
	return b.cell.fail("remove", b.cell.remove(ctx))
}

// IsSet reports whether the barrier is closed.
func (b *Barrier) IsSet(ctx context.Context) (bool, error) {
	c, err := b.cell.load(ctx)
	return c.Exists, b.cell.fail("read", err)
}

// Wait returns when the barrier is open, at once if it already is.
func (b *Barrier) Wait(ctx context.Context) error {
	err := b.cell.await(ctx, func(c driver.Cell) (bool, error) { return !c.Exists, nil })
	return b.cell.fail("wait", err)
}
