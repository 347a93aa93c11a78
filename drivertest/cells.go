package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

const swapSays = "Swap sets or deletes a cell whose version is still s.Version, and returns the cell as it is then, with a larger version. Otherwise it changes nothing and returns ErrConflict."

func set(name string, version uint64, value string) driver.Swap {
	return driver.Swap{ID: newID(), Name: name, Version: version, Value: []byte(value)}
}

func remove(name string, version uint64) driver.Swap {
	return driver.Swap{ID: newID(), Name: name, Version: version, Delete: true, Value: []byte("ignored")}
}

// swap changes a cell that must be at s.Version.
func (t *trial) swap(d driver.Driver, s driver.Swap) driver.Cell {
	var c driver.Cell
	err := t.call(func() (err error) { c, err = d.Swap(t.Ctx, s); return err })
	t.OK(err, "Swap of %q at version %d", s.Name, s.Version)
	t.FatalIf(c.Version <= s.Version || c.Exists == s.Delete || !s.Delete && !bytes.Equal(c.Value, s.Value),
		"Swap of %q at version %d returned %s", s.Name, s.Version, show(c))
	return c
}

func (t *trial) conflict(d driver.Driver, s driver.Swap) {
	if c, err := d.Swap(t.Ctx, s); !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("Swap of %q at version %d: %s, %v; it must be ErrConflict", s.Name, s.Version, show(c), err)
	}
}

// is checks what a cell holds.
func (t *trial) holds(d driver.Driver, name string, want driver.Cell) {
	var got driver.Cell
	t.OK(t.call(func() (err error) { got, err = d.Load(t.Ctx, name); return err }), "Load")
	t.FatalIf(got.Version != want.Version || got.Exists != want.Exists || !bytes.Equal(got.Value, want.Value),
		"the cell %q is %s, not %s", name, show(got), show(want))
}

func show(c driver.Cell) string {
	return fmt.Sprintf("{version %d, exists %v, %d bytes %.40q}", c.Version, c.Exists, len(c.Value), c.Value)
}

var _ = rules.Add(rule{Name: "SwapComparesVersions", Says: []string{
	swapSays,
	"A cell that was never set has version 0.",
	"never set; grows with every change",
	"the version to replace; 0 creates a cell that was never set",
}}, func(t *trial) {
	a, b := t.driver(), t.driver()
	t.holds(a, "c", driver.Cell{})
	t.conflict(a, set("c", 1, "from nothing"))
	one := t.swap(a, set("c", 0, "one"))
	t.holds(b, "c", one)
	t.conflict(b, set("c", 0, "again"))
	two := t.swap(b, set("c", one.Version, "two"))
	t.conflict(a, set("c", one.Version, "late"))
	t.conflict(a, remove("c", one.Version))
	t.conflict(a, set("c", two.Version+1, "early"))
	t.holds(a, "c", two)
	same := t.swap(a, set("c", two.Version, "two")) // the same value is a change
	t.holds(b, "c", same)
	t.holds(b, "other", driver.Cell{})
})

var _ = rules.Add(rule{Name: "DeletedCells", Says: []string{
	"A deleted cell keeps its version, so that a version never comes back.",
	"the cell does not exist afterwards; Value is ignored",
	swapSays,
}}, func(t *trial) {
	a, b := t.driver(), t.driver()
	seen := map[uint64]bool{0: true}
	fresh := func(c driver.Cell) driver.Cell {
		t.FatalIf(seen[c.Version], "the version %d comes back", c.Version)
		seen[c.Version] = true
		return c
	}
	cell := fresh(t.swap(a, set("c", 0, "v")))
	for range 3 {
		old := cell
		gone := fresh(t.swap(b, remove("c", cell.Version)))
		t.holds(a, "c", driver.Cell{Version: gone.Version})
		t.conflict(a, set("c", 0, "as if it had never been"))
		t.conflict(a, set("c", old.Version, "as if it still were"))
		gone = fresh(t.swap(a, remove("c", gone.Version)))
		t.holds(b, "c", driver.Cell{Version: gone.Version})
		cell = fresh(t.swap(a, set("c", gone.Version, "v")))
		t.holds(b, "c", cell)
	}
})

var _ = rules.Add(rule{Name: "SwapIsIdempotent", Says: []string{
	"Repeated with the same ID within SwapMemory it changes nothing more and returns the first result.",
	"SwapMemory is how long, at least, a backend recognises a [Swap] that is repeated with the same ID.",
}}, func(t *trial) {
	a, b := t.driver(), t.driver()
	repeat := func(d driver.Driver, s driver.Swap, first driver.Cell) {
		got, err := d.Swap(t.Ctx, s)
		t.FatalIf(err != nil || got.Version != first.Version || got.Exists != first.Exists || !bytes.Equal(got.Value, first.Value),
			"a repeated Swap returns %s, %v, not the first result %s", show(got), err, show(first))
	}
	s1 := set("c", 0, "one")
	one := t.swap(a, s1)
	repeat(a, s1, one)
	t.holds(b, "c", one)
	s2 := set("c", one.Version, "two")
	two := t.swap(b, s2)
	repeat(b, s2, two)
	repeat(a, s1, one) // although it has changed since
	refused := []driver.Swap{set("c", 0, "refused"), set("c", one.Version, "refused"), remove("c", one.Version)}
	for range 2 {
		for i, s := range refused {
			t.conflict([]driver.Driver{a, b}[i%2], s)
		}
	}
	t.holds(a, "c", two)
	s3 := remove("c", two.Version)
	gone := t.swap(a, s3)
	repeat(a, s3, gone)
	repeat(b, s2, two)
	three := t.swap(b, set("c", gone.Version, "three"))
	repeat(a, s3, gone)
	repeat(a, s1, one)
	for _, s := range refused { // although it has changed since
		t.conflict(a, s)
	}
	t.holds(b, "c", three)
	if t.Simulated { // where a minute costs nothing
		time.Sleep(driver.SwapMemory - time.Second)
		repeat(b, s1, one)
		repeat(a, s3, gone)
		t.holds(b, "c", three)
	}
})

var _ = rules.Add(rule{Name: "CellSize", Says: []string{
	"A cell is a versioned value of at most [MaxCell] bytes, with compare-and-swap and watch.",
}}, func(t *trial) {
	d := t.driver()
	every := make([]byte, driver.MaxCell)
	for i := range every {
		every[i] = byte(i)
	}
	full := t.swap(d, driver.Swap{ID: newID(), Name: "c", Value: every})
	t.holds(t.driver(), "c", full)
	empty := t.swap(d, driver.Swap{ID: newID(), Name: "c", Version: full.Version})
	got, err := d.Load(t.Ctx, "c")
	t.FatalIf(err != nil || !got.Exists || len(got.Value) != 0, "an empty value is %s, %v", show(got), err)
	t.swap(d, remove("c", empty.Version))

	// The caller's bytes are the caller's.
	mine := []byte("mine")
	c := t.swap(d, driver.Swap{ID: newID(), Name: "d", Value: mine})
	mine[0] = 'X'
	c.Value[1] = 'X'
	got, err = d.Load(t.Ctx, "d")
	t.FatalIf(err != nil || string(got.Value) != "mine",
		"the cell changed with the caller's slice: %s, %v", show(got), err)
	got.Value[0] = 'X'
	t.holds(d, "d", driver.Cell{Version: c.Version, Exists: true, Value: []byte("mine")})
})

// Of all who replace one version exactly one wins, so that nothing is lost.
var _ = rules.Add(rule{Name: "CellContention", Across: true, Says: []string{swapSays}}, func(t *trial) {
	const clients = 6
	each := t.size(40, 10)
	drivers := make([]driver.Driver, clients)
	for i := range drivers {
		drivers[i] = t.driver()
	}
	var lost atomic.Int64
	t.Parallel(clients, func(i int) {
		for n := 0; n < each; {
			c, err := drivers[i].Load(t.Ctx, "c")
			t.OK(err, "Load")
			time.Sleep(rand.N(50 * time.Microsecond)) // let the others in between
			_, err = drivers[i].Swap(t.Ctx, set("c", c.Version, string(c.Value)+"."))
			if errors.Is(err, driver.ErrConflict) {
				lost.Add(1)
				continue
			}
			t.OK(err, "Swap")
			n++
		}
	})
	c, err := drivers[0].Load(t.Ctx, "c")
	t.FatalIf(err != nil || len(c.Value) != clients*each,
		"%d clients added %d each, and the cell has %d: %v", clients, each, len(c.Value), err)
	t.Logf("%d swaps, %d lost races", clients*each, lost.Load())
})

const cellsSays = "Cells lists the names of the cells that exist and whose names begin with prefix, in the order of the names."

var _ = rules.Add(rule{Name: "Cells", Says: []string{cellsSays}}, func(t *trial) {
	a, b := t.driver(), t.driver()
	t.cells(b, nil, "")
	t.client().hold(t.exclusive("a queue"))
	names := edges()
	prefixes := []string{"", "nowhere", "foo", "foo/", "foo/bar/baz/", "F", "a", "%", "_", "'", "é", "日", "s"}
	versions := map[string]uint64{}
	for _, name := range names {
		versions[name] = t.swap(a, set(name, 0, "v")).Version
	}
	t.cells(b, names, prefixes...)
	for name := range b.Cells(t.Ctx, "foo/") {
		t.FatalIf(name != "foo/ bar", "Cells lists %q first", name)
		break // a caller may have seen enough
	}

	// One that is deleted is not listed; one that is made again is.
	var rest []string
	for i, name := range names {
		if i%3 == 1 {
			t.swap(a, remove(name, versions[name]))
		} else {
			rest = append(rest, name)
		}
	}
	t.cells(b, rest, prefixes...)
	c, err := a.Load(t.Ctx, names[1])
	t.OK(err, "Load")
	t.swap(a, set(names[1], c.Version, ""))
	rest = append(rest, names[1])
	t.cells(b, rest, prefixes...)
})

var _ = rules.Add(rule{Name: "ManyCells", Says: []string{cellsSays}}, func(t *trial) {
	a := t.driver()
	var names []string
	for i := range t.size(350, 210) {
		name := fmt.Sprintf("many/%s%d", strings.Repeat("x", i%7), i)
		names = append(names, name)
		t.swap(a, set(name, 0, "v"))
		t.Allow(0)
	}
	t.cells(t.driver(), names, "many/")
})

const watchSays = "Watch returns the cell as soon as its version differs from after, at once if it already does. It may skip versions, but never misses the last."

var _ = rules.Add(rule{Name: "Watch", Across: true, Says: []string{watchSays}}, func(t *trial) {
	a, b := t.driver(), t.driver()
	quiet := func(after uint64) {
		ctx, cancel := t.soon()
		defer cancel()
		if c, err := a.Watch(ctx, "c", after); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Watch after version %d, which is the last, returned %s, %v", after, show(c), err)
		}
	}
	change := func(after uint64, s driver.Swap) driver.Cell {
		seen := make([]driver.Cell, 3)
		watched := t.Go(func() {
			t.Parallel(len(seen), func(i int) {
				var err error
				seen[i], err = a.Watch(t.Ctx, "c", after)
				t.OK(err, "Watch after version %d", after)
			})
		})
		time.Sleep(2 * time.Millisecond) // so that they wait; if not, the rule is easier to keep
		want := t.swap(b, s)
		watched()
		for _, c := range seen {
			t.FatalIf(c.Version != want.Version || c.Exists != want.Exists || string(c.Value) != string(want.Value),
				"Watch returned %s, not %s", show(c), show(want))
		}
		quiet(want.Version)
		return want
	}
	quiet(0)
	one := change(0, set("c", 0, "one"))
	t.swap(b, set("other", 0, "x"))
	quiet(one.Version)
	two := change(one.Version, set("c", one.Version, "two"))
	gone := change(two.Version, remove("c", two.Version))
	back := change(gone.Version, set("c", gone.Version, "back"))
	for _, after := range []uint64{0, one.Version, gone.Version, back.Version + 1} {
		if c, err := a.Watch(t.Ctx, "c", after); err != nil || c.Version != back.Version {
			t.Fatalf("Watch after version %d returned %s, %v, not the present one", after, show(c), err)
		}
	}
})

// However fast the cell changes, all watchers arrive at the last version.
var _ = rules.Add(rule{Name: "WatchNeverMissesTheLast", Across: true, Says: []string{watchSays}}, func(t *trial) {
	writer := t.driver()
	watchers := []driver.Driver{t.driver(), t.driver(), writer}
	rounds, burst := t.size(15, 3), 10
	var version uint64
	for round := range rounds {
		start, last := version, fmt.Sprintf("%d/%d", round, burst-1)
		writing := t.Go(func() {
			for n := range burst {
				time.Sleep(rand.N(200 * time.Microsecond))
				version = t.swap(writer, set("c", version, fmt.Sprintf("%d/%d", round, n))).Version
			}
		})
		t.Parallel(len(watchers), func(i int) {
			c := driver.Cell{Version: start}
			for string(c.Value) != last {
				next, err := watchers[i].Watch(t.Ctx, "c", c.Version)
				t.OK(err, "Watch after version %d, waiting for %s", c.Version, last)
				t.FatalIf(next.Version <= c.Version, "Watch after version %d returned %s", c.Version, show(next))
				c = next
			}
		})
		writing()
	}
})
