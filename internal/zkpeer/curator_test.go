package zkpeer_test

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

func TestCurator(t *testing.T) {
	p := curator(t)
	t.Run("threads", func(t *testing.T) { threads(t, p) })
	t.Run("downgrade", func(t *testing.T) { downgrade(t, p) })
	t.Run("semaphoreMutex", func(t *testing.T) { semaphoreMutex(t, p) })
	t.Run("units", func(t *testing.T) { units(t, p) })
	t.Run("revoke", func(t *testing.T) { revoke(t, p) })
	t.Run("latch", func(t *testing.T) { latch(t, p) })
}

// A mutex belongs to its thread, who may have it several times.
func threads(t *testing.T, p *zkpeer.Peer) {
	ctx := within(t)
	must(t, p.Lock(ctx, "/threads"))
	must(t, p.Lock(ctx, "/threads"))
	if err := p.Thread("other").Unlock("/threads"); err == nil {
		t.Error("another thread has released it")
	}
	must(t, p.Unlock("/threads"))
	taken(t, ctx, p.Thread("other").Mutex("/threads"))
	must(t, p.Unlock("/threads"))
	free(t, ctx, p.Thread("other").Mutex("/threads"))
}

func downgrade(t *testing.T, p *zkpeer.Peer) {
	ctx := within(t)
	const path = "/downgrade"
	must(t, p.Write(path).Acquire(ctx))
	must(t, p.Read(path).Acquire(ctx))
	must(t, p.Write(path).Release())
	taken(t, ctx, p.Thread("other").Write(path))
	free(t, ctx, p.Thread("other").Read(path))
	must(t, p.Read(path).Release())
	free(t, ctx, p.Thread("other").Write(path))
}

func semaphoreMutex(t *testing.T, p *zkpeer.Peer) {
	ctx := within(t)
	a, b := p.SemaphoreMutex("/semaphore mutex"), p.Session("other").SemaphoreMutex("/semaphore mutex")
	must(t, a.Acquire(ctx))
	taken(t, ctx, b)
	must(t, a.Release())
	free(t, ctx, b)
}

func units(t *testing.T, p *zkpeer.Peer) {
	ctx := within(t)
	a, b := p.Semaphore("/units", 3), p.Thread("other").Semaphore("/units", 3)
	must(t, a.AcquireUnits(ctx, 2))
	must(t, b.Acquire(ctx))
	taken(t, ctx, b)
	must(t, b.Release())
	must(t, a.Release())
	must(t, b.AcquireUnits(ctx, 3))
	must(t, b.Release())
}

func revoke(t *testing.T, p *zkpeer.Peer) {
	ctx := within(t)
	l := p.Mutex("/revoke")
	must(t, l.MakeRevocable())
	must(t, l.Acquire(ctx))
	must(t, p.Session("other").Revoke(get[string](t)(l.Node())))
	if e := get[zkpeer.Event](t)(p.Await(ctx, zkpeer.Revoked)); e.Path != "/revoke" {
		t.Errorf("%+v", e)
	}
	must(t, l.Release())
}

func latch(t *testing.T, p *zkpeer.Peer) {
	ctx := within(t)
	a, b := p.Latch("/latch", "a"), p.Session("other").Latch("/latch", "b")
	must(t, a.Start())
	must(t, a.Await(ctx))
	if e := get[zkpeer.Event](t)(p.Await(ctx, zkpeer.Leader)); e.Path != "/latch" {
		t.Errorf("%+v", e)
	}
	must(t, b.Start())
	eventually(t, "both are seen", func() bool {
		all := get[[]zkpeer.Participant](t)(b.Participants())
		return len(all) == 2 && all[0] == zkpeer.Participant{ID: "a", Leader: true} && all[1] == zkpeer.Participant{ID: "b"}
	})
	if get[bool](t)(b.TryAwait(ctx, moment)) || get[bool](t)(b.Leads()) {
		t.Error("two lead")
	}
	must(t, a.Close())
	must(t, b.Await(ctx))
	if !get[bool](t)(b.Leads()) {
		t.Error("it does not lead")
	}
	must(t, b.Close())
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	_, err := zkpeer.ClassPath(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "apt-get install libcurator-recipes-java libcurator-framework-java") {
		t.Errorf("jars: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = zkpeer.Tool("javac")
	if err == nil || !strings.Contains(err.Error(), "apt-get install default-jdk-headless") {
		t.Errorf("javac: %v", err)
	}
}
