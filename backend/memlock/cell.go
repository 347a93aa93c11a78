package memlock

import (
	"bytes"
	"context"
	"fmt"
	"iter"
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
	return call(ctx, d, "Load", d, (*Driver).load, name)
}

func (d *Driver) load(name string) (driver.Cell, error) {
	return copied(d.world.cells[name]), nil
}

func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := call(ctx, d, "Cells", d, (*Driver).cells, prefix)
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (d *Driver) cells(prefix string) ([]string, error) {
	var names []string
	for name, c := range d.world.cells {
		if c.Exists && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// copied keeps the caller's hands off the value.
func copied(c driver.Cell) driver.Cell {
	c.Value = bytes.Clone(c.Value)
	return c
}

func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return call(ctx, d, "Swap", d, (*Driver).swap, s)
}

func (d *Driver) swap(s driver.Swap) (driver.Cell, error) {
	w := d.world
	k := parseID(s.ID)
	if first, ok := w.swaps.get(w.now, k); ok {
		if first.name != s.Name || first.version != s.Version {
			return driver.Cell{}, driver.Invalid(fmt.Errorf("memlock: the ID %s was sent before, with another Swap", s.ID))
		}
		return copied(first.cell), first.err
	}
	c := w.cells[s.Name]
	if c.Version != s.Version {
		if s.Version > c.Version { // it could come true, and must not then
			w.swaps.put(w.now, k, swapped{name: s.Name, version: s.Version, err: driver.ErrConflict})
		}
		return driver.Cell{}, driver.ErrConflict
	}
	c = driver.Cell{Version: c.Version + 1, Exists: !s.Delete}
	if c.Exists {
		c.Value = bytes.Clone(s.Value)
	}
	w.cells[s.Name] = c
	w.swaps.put(w.now, k, swapped{name: s.Name, version: s.Version, cell: c})
	w.watches.ring(s.Name)
	return copied(c), nil
}

type watch struct {
	name  string
	after uint64
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	d.listen(d.world.watches, name)
	defer d.unlisten(d.world.watches, name)
	return wait(ctx, d, "Watch", d, (*Driver).watch, watch{name, after})
}

func (d *Driver) watch(a watch) (driver.Cell, *bell, error) {
	if d.cut {
		return driver.Cell{}, &d.healed, nil
	}
	d.exchanges++
	if c := d.world.cells[a.name]; c.Version != a.after {
		return copied(c), nil, nil
	}
	return driver.Cell{}, &d.world.watches[a.name].bell, nil
}

func (d *Driver) listen(b bells, name string) {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b.listen(name)
}

func (d *Driver) unlisten(b bells, name string) {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b.unlisten(name)
}
