package zkpeer_test

import (
	"slices"
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
	"github.com/interlock-go/interlock/internal/zktest"
)

// By their default names, locks of kazoo and of Curator do not exclude each other.
func TestKazooAndCuratorBothAcquire(t *testing.T) {
	addr := zktest.Start(t).Addr
	ctx := within(t)
	curator := zkpeer.Curator(t, addr)
	kazoo := zkpeer.Kazoo(t, addr)
	polite := zkpeer.Kazoo(t, addr, zkpeer.LockPatterns("-lock-"))

	must(t, curator.Lock(ctx, "/both"))
	if !get[bool](t)(kazoo.Mutex("/both").TryAcquire(ctx, 0)) {
		t.Error("kazoo respects Curator's nodes: its documentation can be corrected")
	}
	must(t, kazoo.Unlock("/both"))
	taken(t, ctx, polite.Mutex("/both"))
	must(t, curator.Unlock("/both"))

	must(t, polite.Lock(ctx, "/both"))
	if !get[bool](t)(curator.Mutex("/both").TryAcquire(ctx, 0)) {
		t.Error("Curator respects kazoo's nodes: its documentation can be corrected")
	}
	must(t, curator.Unlock("/both"))
	taken(t, ctx, kazoo.Mutex("/both"))
	must(t, polite.Unlock("/both"))
}

// Contenders of kazoo are known by the names of their threads.
func TestContenders(t *testing.T) {
	p := zkpeer.Kazoo(t, zktest.Start(t).Addr)
	ctx := within(t)
	a, b := p.Thread("a"), p.Thread("b")
	must(t, a.Lock(ctx, "/contenders"))
	got := later(func() error { return b.Lock(ctx, "/contenders") })
	if all := lined(t, p.Mutex("/contenders"), 2); !slices.Equal(all, []string{"thread a", "thread b"}) {
		t.Errorf("contenders %q", all)
	}
	must(t, a.Unlock("/contenders"))
	must(t, <-got)
}
