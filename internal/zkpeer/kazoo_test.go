package zkpeer_test

import (
	"slices"
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

// By their default names, locks of kazoo and of Curator do not exclude each other.
func TestKazooAndCuratorBothAcquire(t *testing.T) {
	ctx := within(t)
	curator, kazoo := curator(t), kazoo(t)
	polite := zkpeer.Kazoo(t, server(t), zkpeer.LockPatterns("-lock-"))

	must(t, curator.Lock(ctx, "/both acquire"))
	if !get[bool](t)(kazoo.Mutex("/both acquire").TryAcquire(ctx, 0)) {
		t.Error("kazoo respects Curator's nodes: its documentation can be corrected")
	}
	must(t, kazoo.Unlock("/both acquire"))
	taken(t, ctx, polite.Mutex("/both acquire"))
	must(t, curator.Unlock("/both acquire"))

	must(t, polite.Lock(ctx, "/both acquire"))
	if !get[bool](t)(curator.Mutex("/both acquire").TryAcquire(ctx, 0)) {
		t.Error("Curator respects kazoo's nodes: its documentation can be corrected")
	}
	must(t, curator.Unlock("/both acquire"))
	taken(t, ctx, kazoo.Mutex("/both acquire"))
	must(t, polite.Unlock("/both acquire"))
}

// Contenders of kazoo are known by the names of their threads.
func TestContenders(t *testing.T) {
	p := kazoo(t)
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
