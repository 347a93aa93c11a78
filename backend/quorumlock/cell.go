package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

var errCells = fmt.Errorf("quorum: has no values, latches, barriers and double barriers: keep them on one backend, such as etcd, ZooKeeper or a database: %w", errors.ErrUnsupported)

// isLeader reports whether a cell has the value that a leader has set. No leader of a quorum can set one, so
// it is known to be empty.
func isLeader(name string) bool { return strings.HasSuffix(name, "/leader") }

func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Cell{}, err
	}
	if isLeader(name) {
		return driver.Cell{}, nil
	}
	return driver.Cell{}, errCells
}

func (d *Driver) Swap(ctx context.Context, _ driver.Swap) (driver.Cell, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Cell{}, err
	}
	return driver.Cell{}, errCells
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	c, err := d.Load(ctx, name)
	if err != nil || after != 0 {
		return c, err
	}
	select {
	case <-ctx.Done():
	case <-d.ctx.Done():
	}
	return driver.Cell{}, d.usable(ctx)
}

func (d *Driver) Cells(context.Context, string) iter.Seq2[string, error] {
	return func(func(string, error) bool) {}
}
