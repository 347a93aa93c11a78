package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zkpeer"
	"github.com/interlock-go/interlock/internal/zktest"
)

const curators = "?semaphore=curator&barrier=curator"

// Promise: with semaphore=curator, programs in Go and in Java share the permits of
// one semaphore.
func TestSemaphoreOfCurator(t *testing.T) {
	t.Parallel()
	s := lent(t)
	java := zkpeer.Curator(t, s.Addr)
	c := program(t, s.Addr, curators)
	t.Run("each waits for the other", func(t *testing.T) { shareOne(t, c, java) })
	t.Run("several permits", func(t *testing.T) { shareSeveral(t, c, java) })
	t.Run("InterProcessSemaphoreMutex is a semaphore of one permit", func(t *testing.T) {
		countTogether(t, peerAdders(java, func(th *zkpeer.Thread) *zkpeer.Lock { return th.SemaphoreMutex("/one") }),
			ourAdder(c.Semaphore("one", 1)), ourAdder(program(t, s.Addr, curators).Semaphore("one", 1)))
	})
	t.Run("never more than there are", func(t *testing.T) { shareThree(t, s.Addr, java) })
	t.Run("inspection", func(t *testing.T) { inspectShared(t, c, java) })
	t.Run("nothing is left behind", func(t *testing.T) { nothingLent(t, c, connected(t, s.Addr), java) })
}

// shareOne: permits are taken by both, and whoever waits is served by the other.
func shareOne(t *testing.T, c *interlock.Client, java *zkpeer.Peer) {
	ctx, sem := limited(t), c.Semaphore("two", 2)
	one, two := java.Thread("1").Semaphore("/two", 2), java.Thread("2").Semaphore("/two", 2)
	ours := errtest.Must(sem.Acquire(ctx))(t)
	noError(t, one.Acquire(ctx))
	isBusy(t, sem)
	isTaken(t, two)

	done := peerInBackground(func() error { return two.Acquire(ctx) })
	watchQueue(t, c, "two", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, ours.Release())
	noError(t, <-done)

	got := inBackground(func() (*interlock.Lease, error) { return sem.Acquire(ctx) })
	watchQueue(t, c, "two", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, one.Release())
	ours = leased(t, got)

	// In the order in which they came, whoever they are.
	done = peerInBackground(func() error { return one.Acquire(ctx) })
	watchQueue(t, c, "two", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	got = inBackground(func() (*interlock.Lease, error) { return c.Semaphore("two", 2).Acquire(ctx) })
	watchQueue(t, c, "two", func(q interlock.Queue) bool { return len(q.Waiters) == 2 })
	noError(t, two.Release())
	noError(t, <-done)
	isTaken(t, two) // it stands behind ours
	noError(t, one.Release())
	noError(t, leased(t, got).Release())
	noError(t, ours.Release())
}

// shareSeveral: a ticket of several permits is granted as one, and may give back some.
func shareSeveral(t *testing.T, c *interlock.Client, java *zkpeer.Peer) {
	ctx := limited(t)
	theirs := java.Semaphore("/five", 5)
	noError(t, theirs.AcquireUnits(ctx, 3))
	isBusy(t, c.Semaphore("five", 5, interlock.Weight(3)))
	ours, err := c.Semaphore("five", 5, interlock.Weight(2)).TryAcquire(ctx)
	noError(t, err)
	isTaken(t, java.Thread("b").Semaphore("/five", 5))
	all := inBackground(func() (*interlock.Lease, error) {
		return c.Semaphore("five", 5, interlock.Weight(5)).Acquire(ctx)
	})
	watchQueue(t, c, "five", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, theirs.Release())
	noError(t, ours.Release())
	whole := leased(t, all)
	isTaken(t, theirs)
	token := whole.Token()
	noError(t, whole.Release())
	noError(t, theirs.AcquireUnits(ctx, 5))
	isBusy(t, c.Semaphore("five", 5))
	noError(t, theirs.Release())
	whole, err = c.Semaphore("five", 5, interlock.Weight(5)).Acquire(ctx)
	noError(t, err)
	if whole.Token() <= token {
		t.Errorf("token %d after %d", whole.Token(), token)
	}
	noError(t, whole.Release())
}

func repeat(n int, f func() error) error {
	for range n {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// shareThree counts how many hold at once. A holder is counted from after its
// acquisition until before its release, so that never too many are.
func shareThree(t *testing.T, addr string, java *zkpeer.Peer) {
	const permits, rounds = 3, 15
	ctx := limited(t)
	var holders, most atomic.Int64
	var mixed atomic.Bool
	var theirs atomic.Int64
	hold := func(java bool) {
		n := holders.Add(1)
		if java {
			theirs.Add(1)
		}
		if j := theirs.Load(); j > 0 && j < n {
			mixed.Store(true)
		}
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		// Until it was seen once that all permits are taken, and once that both kinds have
		// some: three of one kind wait for that in vain.
		for range 2000 {
			time.Sleep(time.Millisecond)
			if most.Load() >= permits && mixed.Load() {
				break
			}
		}
		if java {
			theirs.Add(-1)
		}
		holders.Add(-1)
	}
	done := make(chan error)
	clients := []*interlock.Client{program(t, addr, curators), program(t, addr, curators)}
	const each = 4
	var busy atomic.Int64 // of theirs
	busy.Store(each)
	for i := range each {
		go func() { // as long as there is somebody to share with
			for {
				lease, err := clients[i%2].Semaphore("three", permits).Acquire(ctx)
				if err == nil {
					hold(false)
					err = lease.Release()
				}
				if err != nil || busy.Load() == 0 {
					done <- err
					return
				}
			}
		}()
		go func() {
			defer busy.Add(-1)
			th := java.Session(fmt.Sprint("s", i%2)).Thread(fmt.Sprint("three ", i)).Semaphore("/three", permits)
			done <- repeat(rounds, func() error {
				if err := th.Acquire(ctx); err != nil {
					return err
				}
				hold(true)
				return th.Release()
			})
		}()
	}
	for range 2 * each {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := most.Load(); got != permits || !mixed.Load() {
		t.Errorf("%d held at once, of %d permits, of both: %v", got, permits, mixed.Load())
	}
}

// inspectShared: each ticket is one member, in the order of grants, those of Curator
// too.
func inspectShared(t *testing.T, c *interlock.Client, java *zkpeer.Peer) {
	ctx := limited(t)
	a := errtest.Must(c.Semaphore("seen", 4, interlock.Weight(2), interlock.Note("ours")).Acquire(ctx))(t)
	noError(t, java.Thread("1").Semaphore("/seen", 4).Acquire(ctx))
	b := inBackground(func() (*interlock.Lease, error) {
		return c.Semaphore("seen", 4, interlock.Weight(3)).Acquire(ctx)
	})
	watchQueue(t, c, "seen", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	done := peerInBackground(func() error { return java.Thread("2").Semaphore("/seen", 4).Acquire(ctx) })
	q := watchQueue(t, c, "seen", func(q interlock.Queue) bool { return len(q.Waiters) == 2 })
	if len(q.Holders) != 2 || q.Holders[0].Note != "ours" || q.Holders[0].Units != 2 || q.Holders[1].Units != 1 || q.Waiters[0].Units != 3 {
		t.Errorf("%+v", q)
	}
	if q.Kind != string(driver.Semaphore) || q.Capacity != 4 {
		t.Errorf("a %s of %d", q.Kind, q.Capacity)
	}
	var names []string
	for q, err := range c.Admin().Queues(ctx, "seen") {
		noError(t, err)
		names = append(names, q.Name)
	}
	if len(names) != 1 || names[0] != "seen" {
		t.Errorf("queues %q", names)
	}
	noError(t, a.Release())
	noError(t, leased(t, b).Release())
	noError(t, <-done)
	noError(t, java.Thread("1").Semaphore("/seen", 4).Release())
	noError(t, java.Thread("2").Semaphore("/seen", 4).Release())
}

// nothingLent: what gives up or is refused leaves no node.
func nothingLent(t *testing.T, c *interlock.Client, conn *zk.Conn, java *zkpeer.Peer) {
	ctx := limited(t)
	theirs := java.Semaphore("/left", 2)
	noError(t, theirs.AcquireUnits(ctx, 2))
	isBusy(t, c.Semaphore("left", 2))
	short, cancel := context.WithCancel(ctx)
	first := inBackground(func() (*interlock.Lease, error) { return c.Semaphore("left", 2).Acquire(short) })
	watchQueue(t, c, "left", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	second := inBackground(func() (*interlock.Lease, error) {
		return c.Semaphore("left", 2, interlock.Weight(2)).Acquire(short)
	})
	watchQueue(t, c, "left", func(q interlock.Queue) bool { return len(q.Waiters) == 2 })
	cancel()
	for _, got := range []<-chan acquisition{first, second} {
		if o := <-got; !errors.Is(o.err, context.Canceled) {
			t.Errorf("%v", o.err)
		}
	}
	watchQueue(t, c, "left", func(q interlock.Queue) bool { return len(q.Waiters) == 0 })
	for folder, want := range map[string]int{"/left/locks": 0, "/left/leases": 2} {
		nodes, _, err := conn.Children(folder)
		noError(t, err)
		if len(nodes) != want {
			t.Errorf("%s has %q", folder, nodes)
		}
	}
	noError(t, theirs.Release())
}

// Promise: the permits of a program that was killed come free for the others when
// its session ends, whichever language they are in.
func TestSemaphoreOfCuratorWhenOneDies(t *testing.T) {
	t.Parallel()
	s := lent(t)
	t.Run("theirs", func(t *testing.T) {
		t.Parallel()
		java := zkpeer.Curator(t, s.Addr, zkpeer.SessionTimeout(5*time.Second))
		c, ctx := program(t, s.Addr, curators), limited(t)
		noError(t, java.Thread("1").Semaphore("/theirs", 2).AcquireUnits(ctx, 2))
		waiter := java.Thread("2").Semaphore("/theirs", 2)
		go func() { _ = waiter.Acquire(ctx) }() // dies while it waits in front of ours
		watchQueue(t, c, "theirs", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
		got := inBackground(func() (*interlock.Lease, error) {
			return c.Semaphore("theirs", 2, interlock.Weight(2)).Acquire(ctx)
		})
		watchQueue(t, c, "theirs", func(q interlock.Queue) bool { return len(q.Waiters) == 2 })
		java.Kill()
		noError(t, leased(t, got).Release())
	})
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		java := zkpeer.Curator(t, s.Addr)
		ctx := limited(t)
		via := zktest.NewProxy(t, s.Addr)
		dead, err := interlock.Open(ctx, "zk://"+via.Addr+"/"+curators, interlock.TTL(5*time.Second))
		noError(t, err)
		defer dead.Close()
		_, err = dead.Semaphore("ours", 2, interlock.Weight(2)).Acquire(ctx)
		noError(t, err)
		theirs := java.Semaphore("/ours", 2)
		isTaken(t, theirs)
		done := peerInBackground(func() error { return theirs.AcquireUnits(ctx, 2) })
		via.Hang()
		defer via.Resume()
		noError(t, <-done)
		noError(t, theirs.Release())
	})
}

// Promise: what leases cannot be is refused with the reason.
func TestLeasesThatCannotBe(t *testing.T) {
	t.Parallel()
	s := lent(t)
	c, ctx := program(t, s.Addr, curators), limited(t)
	_, err := c.Semaphore("s", 2, interlock.ExpiresAfter(time.Minute)).Acquire(ctx)
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "semaphore=curator") {
		t.Errorf("Hold: %v", err)
	}
	_, err = c.Semaphore("s", 5000, interlock.Weight(2000)).Acquire(ctx)
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "1000") {
		t.Errorf("2000 permits: %v", err)
	}
	lease := errtest.Must(c.Semaphore("s", 5000, interlock.Weight(1000)).Acquire(ctx))(t)
	noError(t, lease.Release())
	for _, other := range []*interlock.Lock{c.Semaphore("s", 3), c.Mutex("s")} {
		held := errtest.Must(c.Semaphore("s", 2).Acquire(ctx))(t)
		if _, err := other.Acquire(ctx); !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("another size or kind: %v", err)
		}
		noError(t, held.Release())
	}
}

// Promise: whichever answer is lost, a ticket of several permits has so many leases and no more, and leaves none.
func TestLeasesWhoseAnswerIsLost(t *testing.T) {
	p := alone(t)
	for op, most := range map[zktest.Op]int{zktest.OpCreate: 1, zktest.OpMulti: 3} {
		for n := 1; n <= most; n++ {
			d := errtest.Must(openURL(t.Context(), "zk://"+p.via.Addr+"/a"+curators))(t)
			s := session(t, d, 20*time.Second)
			r := permits("q", 2, 3)
			p.via.LoseReplies(1, zktest.Nth(n, op))
			got, err := s.Join(limited(t), r)
			for r.Retry = true; err != nil; {
				if driver.IsPermanent(err) {
					t.Fatalf("%v %d: %v", op, n, err)
				}
				got, err = s.Join(limited(t), r)
			}
			if !got.Held {
				got = errtest.Must(s.Await(limited(t), got))(t)
			}
			if all := nodes(t, p.raw, "/a/q/leases"); len(all) != 2 {
				t.Errorf("%v %d: leases %q", op, n, all)
			}
			p.via.LoseReplies(0, nil)
			p.via.LoseReplies(1, zktest.With(zktest.OpMulti))
			err = quit(t, s, got)
			p.via.LoseReplies(0, nil)
			for _, folder := range []string{"locks", "leases"} {
				if all := nodes(t, p.raw, "/a/q/"+folder); len(all) != 0 {
					t.Errorf("%v %d: %v left %q in %s", op, n, err, all, folder)
				}
			}
			noError(t, d.Close())
		}
	}
}

// Promise: what a driver leaves on the program's own connection is nothing, of Curator's layouts as well.
func TestOwnConnectionIsLeftCleanOfCuratorsLayouts(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	for _, what := range []string{"driver", "session"} {
		tap := zklock.NewTap(nil)
		conn, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithDialer(tap.Dial), zk.WithLogInfo(false))
		noError(t, err)
		t.Cleanup(conn.Close)
		d := errtest.Must(zklock.New(limited(t), conn, tap, zklock.Root("/a"), zklock.Layout(curators[1:])))(t)
		a := session(t, d, 10*time.Second)
		holds(t, a, permits("q", 2, 2))
		waits := join(t, a, permits("q", 2, 2))
		if waits.Held {
			t.Error("two have all permits")
		}
		holds(t, a, driver.Request{ID: someID(), Queue: "b", Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity})
		if what == "session" {
			noError(t, a.Close(limited(t)))
		}
		noError(t, d.Close())
		if left := nodesBelow(t, raw, "/a/q/locks", "/a/q/leases", "/a/b"); len(left) > 0 {
			t.Errorf("once the %s was closed: %q", what, left)
		}
	}
}

// Promise: a lock of another kind that came later refuses no ticket of a semaphore, also if its client does not know
// yet that it is refused.
func TestALaterLockOfAnotherKindRefusesNoPermits(t *testing.T) {
	p := alone(t)
	at := func(addr string) *driver.Opened {
		d := errtest.Must(openURL(t.Context(), "zk://"+addr+"/a"+curators))(t)
		t.Cleanup(func() { _ = d.Close() })
		return session(t, d, 20*time.Second)
	}
	first, right, wrong := at(p.server.Addr), at(p.server.Addr), at(p.via.Addr)
	beat(t, first, holds(t, first, permits("q", 1, 3)))
	hold := p.via.HoldReplies(zktest.With(zktest.OpCreate))
	refused := make(chan error, 1)
	ctx := limited(t)
	go func() { refused <- second(wrong.Join(ctx, aMutex("q"))) }()
	busy.Until(t, "its node stands", func() bool { return len(nodes(t, p.raw, "/a/q")) == 3 })
	for _, r := range []driver.Request{permits("q", 1, 3), permits("q", 2, 3)} {
		noError(t, right.Leave(limited(t), holds(t, right, r), true))
	}
	hold.Release()
	p.refused(<-refused)
}

func second(_ driver.Ticket, err error) error { return err }

// Promise: no leases are made for a ticket that was taken out of locks meanwhile.
func TestNoLeasesAreMadeOnceTheLockIsGone(t *testing.T) {
	p := alone(t)
	d := errtest.Must(openURL(t.Context(), "zk://"+p.via.Addr+"/a"+curators))(t)
	defer d.Close()
	s, ctx := session(t, d, 20*time.Second), limited(t)
	hold := p.via.HoldRequests(zktest.With(zktest.OpMulti))
	joined := make(chan error, 1)
	go func() { joined <- second(s.Join(ctx, permits("q", 2, 3))) }()
	<-hold.Held()
	for _, lock := range nodes(t, p.raw, "/a/q/locks") {
		noError(t, p.raw.Delete("/a/q/locks/"+lock, -1))
	}
	hold.Release()
	if err := <-joined; !errors.Is(err, driver.ErrGone) {
		t.Errorf("its lock was removed: %v", err)
	}
	if all := nodes(t, p.raw, "/a/q/leases"); len(all) != 0 {
		t.Errorf("leases %q", all)
	}
}

// Promise: a lease that has left and that the servers bring back is removed again.
func TestALeaseThatComesBackIsRemoved(t *testing.T) {
	p := alone(t)
	const ttl = 4 * time.Second
	d := errtest.Must(openURL(t.Context(), "zk://"+p.server.Addr+"/a"+curators))(t)
	t.Cleanup(func() { _ = d.Close() })
	s := session(t, d, ttl)
	held := holds(t, s, permits("q", 1, 2))
	stays := holds(t, s, permits("q", 1, 2))
	path := "/a/q/leases/" + nodes(t, p.raw, "/a/q/leases")[0]
	if !strings.Contains(strings.ReplaceAll(path, "-", ""), held.ID) {
		held, stays = stays, held
	}
	noError(t, s.Leave(limited(t), held, true))
	beat(t, s, stays)
	appear(t, zklock.Connection(s), path)
	vanishes(t, p.raw, path, ttl)
	if all := nodes(t, p.raw, "/a/q/leases"); len(all) != 1 {
		t.Errorf("leases %q", all)
	}
}
