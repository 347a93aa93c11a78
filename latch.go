package interlock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/oneline"
)

// Latch is a count that goes down to zero, and many who wait for that: for n
// workers to be ready, or n parts to be done. It survives its users.
//
// While the backend cannot be reached, its methods wait as those of [Value] do: with a
// context without an end for ever.
type Latch struct{ cell cell }

// Latch makes a count-down latch.
func (c *Client) Latch(name string) *Latch { return &Latch{c.cell("latch", name)} }

// Set starts the latch at n > 0. It returns false, and changes nothing, if the
// latch was set already and not reset since.
func (l *Latch) Set(ctx context.Context, n int64) (bool, error) {
	if n < 1 {
		return false, l.cell.fail("set", driver.Invalid(fmt.Errorf("a count of %d is not positive", n)))
	}
	_, set, err := l.cell.create(ctx, strconv.AppendInt(nil, n, 10))
	return set, l.cell.fail("set", err)
}

// CountDown takes one off and returns what is left. At zero, and on a latch
// that is not set, it changes nothing; the latter is an error.
func (l *Latch) CountDown(ctx context.Context) (int64, error) {
	var left int64
	_, err := l.cell.change(ctx, func(c driver.Cell) (driver.Swap, error) {
		if !c.Exists {
			return driver.Swap{}, fmt.Errorf("the latch is not set")
		}
		n, err := count(c)
		if err != nil {
			return driver.Swap{}, err
		}
		if left = max(n-1, 0); n == 0 {
			return driver.Swap{}, errUnchanged
		}
		return driver.Swap{Value: strconv.AppendInt(nil, left, 10)}, nil
	})
	return left, l.cell.fail("count down", err)
}

// Count returns what is left, and whether the latch is set at all.
func (l *Latch) Count(ctx context.Context) (left int64, set bool, err error) {
	c, err := l.cell.load(ctx)
	if err == nil && c.Exists {
		left, err = count(c)
	}
	return left, c.Exists, l.cell.fail("count", err)
}

// Wait returns when the count is zero. On a latch that is not set it waits for
// Set too.
func (l *Latch) Wait(ctx context.Context) error {
	err := l.cell.await(ctx, func(c driver.Cell) (bool, error) {
		if !c.Exists {
			return false, nil
		}
		n, err := count(c)
		return n == 0, err
	})
	return l.cell.fail("wait", err)
}

// Reset makes the latch as if it had never been set. Who waits goes on waiting.
func (l *Latch) Reset(ctx context.Context) error {
	return l.cell.fail("reset", l.cell.remove(ctx))
}

func count(c driver.Cell) (int64, error) {
	n, err := strconv.ParseInt(string(c.Value), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the stored count %q is not a number", oneline.Cut(c.Value, 20))
	}
	return n, nil
}
