package zkpeer_test

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

// both runs a test with a peer of each library of its own, on paths of its own: kazoo
// takes every node for a lease that Curator has left where a semaphore was.
func both(t *testing.T, f func(t *testing.T, p *zkpeer.Peer, root string), opts ...zkpeer.Option) {
	addr := server(t)
	t.Run("Curator", func(t *testing.T) { f(t, zkpeer.Curator(t, addr, opts...), root(t)) })
	t.Run("kazoo", func(t *testing.T) { f(t, zkpeer.Kazoo(t, addr, opts...), root(t)) })
}

// shared is like both, with the peers that the tests share.
func shared(t *testing.T, f func(t *testing.T, p *zkpeer.Peer, root string)) {
	t.Run("Curator", func(t *testing.T) { f(t, curator(t), root(t)) })
	t.Run("kazoo", func(t *testing.T) { f(t, kazoo(t), root(t)) })
}

func root(t *testing.T) string { return "/" + strings.ReplaceAll(t.Name(), "/", " ") }

func TestLocks(t *testing.T) {
	shared(t, func(t *testing.T, p *zkpeer.Peer, root string) {
		t.Run("mutex", func(t *testing.T) { mutex(t, p, root+"/mutex") })
		t.Run("handOver", func(t *testing.T) { handOver(t, p, root+"/handOver") })
		t.Run("readWrite", func(t *testing.T) { readWrite(t, p, root+"/readWrite") })
		t.Run("semaphore", func(t *testing.T) { semaphore(t, p, root+"/semaphore") })
		t.Run("interrupt", func(t *testing.T) { interrupt(t, p, root+"/interrupt") })
		t.Run("errors", func(t *testing.T) { raised(t, p) })
	})
}

func mutex(t *testing.T, p *zkpeer.Peer, path string) {
	ctx := within(t)
	must(t, p.Lock(ctx, path))
	node := get[string](t)(p.Mutex(path).Node())
	if !strings.HasPrefix(node, path+"/") || !strings.Contains(node, "lock") {
		t.Errorf("node %q", node)
	}
	taken(t, ctx, p.Thread("b").Mutex(path))
	taken(t, ctx, p.Session("b").Mutex(path))
	must(t, p.Unlock(path))
	free(t, ctx, p.Thread("b").Mutex(path))
	free(t, ctx, p.Session("b").Mutex(path))
}

func handOver(t *testing.T, p *zkpeer.Peer, path string) {
	ctx := within(t)
	a, b := p.Mutex(path), p.Thread("b").Mutex(path)
	must(t, a.Acquire(ctx))
	got := later(func() error { return b.Acquire(ctx) })
	lined(t, p.Thread("looks").Mutex(path), 2)
	must(t, a.Release())
	must(t, <-got)
	taken(t, ctx, a)
	must(t, b.Release())
}

func readWrite(t *testing.T, p *zkpeer.Peer, path string) {
	ctx := within(t)
	a, b := p.Thread("a"), p.Session("other")
	must(t, a.Read(path).Acquire(ctx))
	must(t, b.Read(path).Acquire(ctx))
	taken(t, ctx, p.Thread("c").Write(path))
	must(t, a.Read(path).Release())
	must(t, b.Read(path).Release())
	must(t, a.Write(path).Acquire(ctx))
	taken(t, ctx, b.Read(path))
	taken(t, ctx, b.Write(path))
	must(t, a.Write(path).Release())
	free(t, ctx, b.Write(path))
}

func semaphore(t *testing.T, p *zkpeer.Peer, path string) {
	ctx := within(t)
	a, b := p.Semaphore(path, 2), p.Session("other").Semaphore(path, 2)
	must(t, a.Acquire(ctx))
	must(t, b.Acquire(ctx))
	lined(t, b, 2)
	taken(t, ctx, a)
	must(t, b.Release())
	must(t, a.Acquire(ctx))
	taken(t, ctx, b)
	must(t, a.Release())
	must(t, a.Release())
	free(t, ctx, b)
}

func interrupt(t *testing.T, p *zkpeer.Peer, path string) {
	ctx := within(t)
	must(t, p.Lock(ctx, path))
	waiter := p.Thread("waiter")
	got := later(func() error { return waiter.Lock(ctx, path) })
	lined(t, p.Thread("looks").Mutex(path), 2)
	// Its node is there before it waits for anything.
	eventually(t, "it gives up", func() bool {
		must(t, waiter.Interrupt())
		return len(get[[]string](t)(p.Thread("looks").Mutex(path).Participants())) == 1
	})
	if err := <-got; err == nil {
		t.Error("it was acquired")
	}
	must(t, p.Unlock(path))
	free(t, ctx, waiter.Mutex(path))
}

func raised(t *testing.T, p *zkpeer.Peer) {
	err, ok := p.Unlock("/never locked").(*zkpeer.Error)
	if !ok || err.Op != "lock.release" {
		t.Errorf("Unlock: %v", err)
	}
	if err := p.Call(t.Context(), "lock.nonsense", zkpeer.Args{"kind": "none", "path": "/"}, nil); err == nil {
		t.Error("there is no such operation")
	}
	if err := p.Call(t.Context(), "nonsense", nil, nil); err == nil {
		t.Error("there is no such operation")
	}
}
