package zklock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/zktest"
)

// client opens a client of one server, in its own process's account of time.
func client(t testing.TB, s *zktest.Server, options string) *interlock.Client {
	t.Helper()
	c, err := interlock.Open(t.Context(), "zk://"+s.Addr+"/app?"+options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A follower whose link to the leader is frozen goes on answering its clients,
// while the leader gives their locks away: they have to give up before.
func TestHolderBehindAFrozenFollowerGivesUpBeforeTheNextOneHolds(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Config("syncLimit", "30"))
	follower := e.Followers()[0]
	for round := range 8 {
		a, b := client(t, follower, "ttl=1s"), client(t, e.Leader(), "ttl=1s")
		lease, err := a.Mutex("job").Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// At different parts of a heartbeat.
		time.Sleep(time.Duration(round) * 45 * time.Millisecond)
		gaveUp := make(chan time.Time, 1)
		go func() {
			<-lease.Done()
			gaveUp <- time.Now()
		}()
		e.Freeze(follower)
		next, err := b.Mutex("job").Acquire(t.Context())
		got := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		select {
		case at := <-gaveUp:
			t.Logf("round %d: given up %v before the next one got it", round, got.Sub(at))
		default:
			t.Fatalf("round %d: two hold: the one behind the frozen follower has %v left", round, lease.Remaining())
		}
		if !errors.Is(lease.Err(), interlock.ErrLost) {
			t.Errorf("the lease ended with %v", lease.Err())
		}
		if next.Token() <= lease.Token() {
			t.Errorf("the token %d follows %d", next.Token(), lease.Token())
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
		e.Thaw(follower)
		e.Followers() // wait until it is back
		a.Close()
		b.Close()
	}
}

// A client of several servers goes to another one in time, and keeps its lock.
func TestLockIsKeptWhenItsServerDies(t *testing.T) {
	e := zktest.StartEnsemble(t, 3)
	url := "zk://" + e.Servers[0].Addr + "," + e.Servers[1].Addr + "," + e.Servers[2].Addr + "/app?ttl=6s"
	c, err := interlock.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease, err := c.Mutex("job").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		dead := e.KillLeader()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		select {
		case <-lease.Done():
			t.Fatalf("lost with its leader: %v", lease.Err())
		case <-ctx.Done():
		}
		cancel()
		e.Restart(dead)
		e.Followers()
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
}
