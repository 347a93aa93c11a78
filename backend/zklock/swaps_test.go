package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
)

// Promise: what recognises a Swap that is repeated does not pile up, even if each client
// makes one change and ends.
func TestMarkersOfClientsThatHaveEnded(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	swap := func(memory time.Duration) string {
		d := opened(t, s.Addr)
		defer d.Close()
		zklock.RememberSwaps(d, memory)
		c, err := d.Load(limited(t), "v")
		noError(t, err)
		w := driver.Swap{ID: someID(), Name: "v", Version: c.Version, Value: []byte("x")}
		_, err = d.Swap(limited(t), w)
		noError(t, err)
		return w.ID
	}
	const markers = "/a/_interlock/swaps"
	for range 5 {
		swap(time.Hour)
	}
	if n := nodes(t, raw, markers); len(n) != 5 {
		t.Fatalf("those of an hour ago are to stay: %q", n)
	}
	busy.Until(t, "the markers are too old, and only the last stays", func() bool {
		last := swap(time.Millisecond)
		n := nodes(t, raw, markers)
		return len(n) == 1 && n[0] == last
	})
}
