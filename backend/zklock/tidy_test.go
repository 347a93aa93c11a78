package zklock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: Close ends the session at once, its tickets leave, but for those with a fixed
// end. That the connection is lost just then, so that no server hears of it, changes nothing.
func TestCloseWithoutAConnectionLeavesNoTicket(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	via := zktest.NewProxy(t, s.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	open := func(addr string) (driver.Driver, *driver.Opened) {
		d := errtest.Must(openURL(ctx, "zk://"+addr+"/tidy"))(t)
		t.Cleanup(func() { d.Close() })
		s, err := d.Open(ctx, driver.SessionOptions{TTL: 20 * time.Minute})
		noError(t, err)
		return d, s
	}
	_, a := open(via.Addr)
	d, b := open(s.Addr)
	errtest.Must(a.Join(ctx, aMutex("q")))(t)
	fixed := aMutex("fixed")
	fixed.Hold = time.Hour
	holds(t, a, fixed)
	next := errtest.Must(b.Join(ctx, aMutex("q")))(t)
	via.Refuse(true)
	via.Cut()
	closed := make(chan error, 1)
	go func() { closed <- a.Close(ctx) }()
	time.Sleep(100 * time.Millisecond)
	select {
	case err := <-closed:
		t.Fatalf("Close without a server: %v", err)
	default:
	}
	via.Refuse(false)
	noError(t, <-closed)
	q, err := d.Follow(ctx, "q", "")
	noError(t, err)
	if len(q.Members) != 1 || q.Members[0].ID != next.ID {
		t.Errorf("a session that was closed has tickets: %+v", q.Members)
	}
	if q, err = d.Follow(ctx, "fixed", ""); err != nil || len(q.Members) != 1 || q.Members[0].ID != fixed.ID {
		t.Errorf("a ticket with a fixed end has not outlasted Close: %+v %v", q.Members, err)
	}
}

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
