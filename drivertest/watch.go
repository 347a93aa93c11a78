package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/driver"
)

const watchSays = "Watch returns the cell as soon as its version differs from after, at once if it already does. It may skip versions, but never misses the last."

var _ = rules.Add(rule{Name: "Watch", Across: true, Says: []string{watchSays}}, func(t *trial) {
	a, b := t.driver(), t.driver()
	quiet := func(after uint64) {
		t.Helper()
		ctx, cancel := t.soon()
		defer cancel()
		if c, err := a.Watch(ctx, "c", after); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Watch after version %d, which is the last, returned %s, %v", after, show(c), err)
		}
	}
	change := func(after uint64, s driver.Swap) driver.Cell {
		t.Helper()
		type result struct {
			c   driver.Cell
			err error
		}
		seen := make(chan result, 3)
		for range cap(seen) {
			t.Calls.Go(func() {
				c, err := a.Watch(t.Ctx, "c", after)
				seen <- result{c, err}
			})
		}
		time.Sleep(2 * time.Millisecond) // so that they wait; if not, the rule is easier to keep
		want := t.swap(b, s)
		for range cap(seen) {
			r := <-seen
			t.FatalIf(r.err != nil, "Watch after version %d, waiting for %s: %v", after, show(want), r.err)
			t.FatalIf(r.c.Version != want.Version || r.c.Exists != want.Exists || string(r.c.Value) != string(want.Value),
				"Watch returned %s, not %s", show(r.c), show(want))
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
		t.Parallel(len(watchers)+1, func(i int) error {
			if i == len(watchers) {
				for n := range burst {
					time.Sleep(rand.N(200 * time.Microsecond))
					c, err := writer.Swap(t.Ctx, set("c", version, fmt.Sprintf("%d/%d", round, n)))
					if err != nil {
						return err
					}
					version = c.Version
				}
				return nil
			}
			after := start
			for {
				c, err := watchers[i].Watch(t.Ctx, "c", after)
				if err != nil {
					return fmt.Errorf("watch after version %d, waiting for %s: %w", after, last, err)
				}
				if c.Version <= after {
					return fmt.Errorf("watch after version %d returned %s", after, show(c))
				}
				if string(c.Value) == last {
					return nil
				}
				after = c.Version
			}
		})
	}
})
