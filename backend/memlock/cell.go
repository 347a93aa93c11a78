package memlock

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// swapped is the result of a Swap, kept for its repetition.
type swapped struct {
	name    string
	version uint64 // that it replaces
	cell    driver.Cell
	err     error
}

func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	return request(ctx, d, "Load", func() (driver.Cell, error) { return copied(d.world.cells[name]), nil })
}

func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return inOrder(ctx, d, "Cells", prefix, d.world.cells, func(name string, c driver.Cell) (string, bool) {
		return name, c.Exists
	})
}

// inOrder says of each row whose name begins with prefix what show says, in the order of their names, unless it says
// not to.
func inOrder[Row, Res any](ctx context.Context, d *Driver, method, prefix string, table map[string]Row,
	show func(name string, row Row) (Res, bool)) iter.Seq2[Res, error] {
	return func(yield func(Res, error) bool) {
		all, err := request(ctx, d, method, func() (all []Res, err error) {
			for _, name := range slices.Sorted(maps.Keys(table)) {
				if !strings.HasPrefix(name, prefix) {
					continue
				}
				if res, ok := show(name, table[name]); ok {
					all = append(all, res)
				}
			}
			return all, nil
		})
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
		if err != nil {
			var none Res
			yield(none, err)
		}
	}
}

// copied keeps the caller's hands off the value.
func copied(c driver.Cell) driver.Cell {
	c.Value = bytes.Clone(c.Value)
	return c
}

func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return request(ctx, d, "Swap", func() (driver.Cell, error) { return d.world.swap(s) })
}

func (w *World) swap(s driver.Swap) (driver.Cell, error) {
	if first, ok := w.swaps.get(w.now, s.ID); ok {
		if first.name != s.Name || first.version != s.Version {
			return driver.Cell{}, driver.Invalid(fmt.Errorf("memlock: the ID %s was sent before, with another Swap", s.ID))
		}
		return copied(first.cell), first.err
	}
	c := w.cells[s.Name]
	if c.Version != s.Version {
		if s.Version > c.Version { // it could come true, and must not then
			w.swaps.put(w.now, s.ID, swapped{name: s.Name, version: s.Version, err: driver.ErrConflict})
		}
		return driver.Cell{}, driver.ErrConflict
	}
	c = driver.Cell{Version: c.Version + 1, Exists: !s.Delete}
	if c.Exists {
		c.Value = bytes.Clone(s.Value)
	}
	w.cells[s.Name] = c
	w.swaps.put(w.now, s.ID, swapped{name: s.Name, version: s.Version, cell: c})
	w.watches.ring(s.Name)
	return copied(c), nil
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	return watch(ctx, d, "Watch", d.world.watches, name, func() (driver.Cell, bool) {
		c := d.world.cells[name]
		return copied(c), c.Version != after
	})
}
