package zkpeer_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

func TestSelector(t *testing.T) {
	shared(t, func(t *testing.T, shared *zkpeer.Peer, root string) {
		ctx := within(t)
		p, other := shared.Session("selector"), shared.Session("other")
		a, b := p.Selector(root, "a"), other.Selector(root, "b")
		must(t, a.Start())
		must(t, a.Await(ctx))
		get[zkpeer.Event](t)(p.Await(ctx, zkpeer.Leader))
		must(t, b.Start())
		eventually(t, "both are seen", func() bool {
			all := get[[]zkpeer.Participant](t)(b.Participants())
			return len(all) == 2 && all[0] == zkpeer.Participant{ID: "a", Leader: true} && all[1] == zkpeer.Participant{ID: "b"}
		})
		if get[bool](t)(b.TryAwait(ctx, moment)) || get[bool](t)(b.Leads()) {
			t.Error("two lead")
		}
		must(t, a.Resign())
		get[zkpeer.Event](t)(p.Await(ctx, zkpeer.NotLeader))
		must(t, b.Await(ctx))
		must(t, a.Start())
		must(t, b.Close())
		must(t, a.Await(ctx))
		must(t, a.Close())
	})
}

// A leader whose session ends is told, and another leads.
func TestLeaderIsLost(t *testing.T) {
	both(t, func(t *testing.T, p *zkpeer.Peer, root string) {
		ctx := within(t)
		a, b := p.Selector(root, "a"), p.Session("other").Selector(root, "b")
		must(t, a.Start())
		must(t, a.Await(ctx))
		must(t, b.Start())
		must(t, p.Expire())
		get[zkpeer.Event](t)(p.Await(ctx, zkpeer.NotLeader))
		must(t, b.Await(ctx))
	})
}
