package pglock_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: what a member writes that is longer than anything written here costs those who look no
// memory.
func TestALongNoteCostsNoMemory(t *testing.T) { // memory is counted for the process
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a := session(t, d)
	held := acquire(t, a, "q", 1)
	join(t, a, request("q", 1))
	const long = 100 << 20
	for _, text := range []string{"UPDATE interlock.ticket SET note = x.b", "UPDATE interlock.session SET owner = encode(x.b, 'hex')", "UPDATE interlock.queue SET kind = encode(x.b, 'hex')"} {
		s.SQL(text + " FROM (SELECT decode(repeat('00', 52428800), 'hex') AS b) x")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(30*time.Second))
	defer cancel()
	q, err := d.Follow(ctx, "q", "")
	if err != nil || len(q.Members) != 2 || q.Members[0].ID != held.ID {
		t.Errorf("%d members: %v", len(q.Members), err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > long/2 {
		t.Errorf("a look has taken %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
}
