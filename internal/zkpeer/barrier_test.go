package zkpeer_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

func TestBarrier(t *testing.T) {
	shared(t, func(t *testing.T, p *zkpeer.Peer, root string) {
		ctx := within(t)
		mine, others := p.Barrier(root), p.Session("other").Barrier(root)
		must(t, mine.Wait(ctx)) // there is none
		must(t, mine.Set())
		if get[bool](t)(others.TryWait(ctx, moment)) {
			t.Error("it is open")
		}
		waited := later(func() error { return others.Wait(ctx) })
		must(t, mine.Remove())
		must(t, <-waited)
	})
}

func TestDoubleBarrier(t *testing.T) {
	shared(t, func(t *testing.T, p *zkpeer.Peer, root string) {
		ctx := within(t)
		for range 2 {
			a, b := p.DoubleBarrier(root, 2), p.Session("other").DoubleBarrier(root, 2)
			entered := later(func() error { return a.Enter(ctx) })
			must(t, b.Enter(ctx))
			must(t, <-entered)
			left := later(func() error { return b.Leave(ctx) })
			must(t, a.Leave(ctx))
			must(t, <-left)
		}
	})
}
