package zkpeer_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

func TestSessions(t *testing.T) {
	both(t, func(t *testing.T, p *zkpeer.Peer, root string) {
		t.Run("expire", func(t *testing.T) { expire(t, p, root+"/expire") })
		t.Run("abandon", func(t *testing.T) { abandon(t, p, root+"/abandon") })
	}, zkpeer.SessionTimeout(40*time.Second)) // no session times out here
}

func expire(t *testing.T, p *zkpeer.Peer, path string) {
	ctx := within(t)
	s, other := p.Session("expire"), p.Session("other")
	before := get[int64](t)(s.ID())
	must(t, s.Lock(ctx, path))
	taken(t, ctx, other.Mutex(path))
	must(t, s.Expire())
	free(t, ctx, other.Mutex(path))
	get[zkpeer.Event](t)(s.Await(ctx, zkpeer.Lost))
	eventually(t, "a new session", func() bool { return get[int64](t)(s.ID()) != before })
}

func abandon(t *testing.T, p *zkpeer.Peer, path string) {
	ctx := within(t)
	s, other := p.Session("abandon"), p.Session("other")
	must(t, s.Lock(ctx, path))
	must(t, s.Abandon())
	get[zkpeer.Event](t)(s.Await(ctx, zkpeer.Lost))
	taken(t, ctx, other.Mutex(path))
}

// A peer that is stopped loses its session, and learns it when it goes on.
func TestPause(t *testing.T) {
	addr := server(t)
	other := zkpeer.Kazoo(t, addr, zkpeer.LockPatterns("-lock-"))
	for name, p := range map[string]*zkpeer.Peer{
		"Curator": zkpeer.Curator(t, addr, zkpeer.SessionTimeout(2*time.Second)),
		"kazoo":   zkpeer.Kazoo(t, addr, zkpeer.SessionTimeout(2*time.Second)),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t)
			lock := func(p *zkpeer.Peer) *zkpeer.Lock { return p.Mutex("/pause " + name) }
			must(t, lock(p).Acquire(ctx))
			must(t, p.Pause())
			free(t, ctx, lock(other))
			must(t, p.Resume())
			get[zkpeer.Event](t)(p.Await(ctx, zkpeer.Lost))
		})
	}
}
