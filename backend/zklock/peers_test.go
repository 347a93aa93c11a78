package zklock_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zkpeer"
)

// Programs of other libraries and ours respect each other on one path: Curator
// and the client's own lock always, and kazoo if it was told of the names.
func TestCurator(t *testing.T) {
	t.Parallel()
	s := lent(t)
	java := zkpeer.Curator(t, s.Addr)
	t.Run("count", func(t *testing.T) { countWithCurator(t, s.Addr, java) })
	t.Run("readWrite", func(t *testing.T) { readWrite(t, program(t, s.Addr, ""), java, "/rw") })
	t.Run("order", func(t *testing.T) { order(t, s.Addr, java) })
	t.Run("selector", func(t *testing.T) { elect(t, program(t, s.Addr, ""), java.Selector("/leader", "peer")) })
	t.Run("revoked by Curator", func(t *testing.T) { revokedByPeer(t, program(t, s.Addr, ""), java) })
	t.Run("revoke Curator", func(t *testing.T) { revokePeer(t, program(t, s.Addr, ""), java) })
}

// The client's own lock has the ID without dashes, and what it gives up is as
// free for others.
func TestClientsLock(t *testing.T) {
	t.Parallel()
	s := lent(t)
	c, ctx := program(t, s.Addr, ""), limited(t)
	theirs := clientsLock(t, s.Addr, "/m")
	noError(t, theirs.Lock())
	q := watchQueue(t, c, "m", func(q interlock.Queue) bool { return len(q.Holders) == 1 })
	if id := q.Holders[0].ID; len(id) != 32 {
		t.Errorf("ID %q", id)
	}
	isBusy(t, c.Mutex("m"))
	got := inBackground(func() (*interlock.Lease, error) { return c.Mutex("m").Acquire(ctx) })
	watchQueue(t, c, "m", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, theirs.Unlock())
	lease := leased(t, got)
	done := make(chan error, 1)
	go func() { done <- theirs.Lock() }()
	watchQueue(t, c, "m", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, lease.Release())
	noError(t, <-done)
	noError(t, theirs.Unlock())
}

// What a peer keeps in the queue's own node is its.
func TestDataOfOthersStays(t *testing.T) {
	t.Parallel()
	s := lent(t)
	conn := connected(t, s.Addr)
	for _, data := range []string{"Rules of the house", "R", "R12x", "{}", "\x00"} {
		errtest.Must(conn.Create("/m", []byte(data), zk.FlagPersistent, zk.WorldACL(zk.PermAll)))(t)
		a, b := program(t, s.Addr, ""), program(t, s.Addr, "")
		for range 3 {
			lease := errtest.Must(a.Mutex("m").Acquire(limited(t)))(t)
			got := inBackground(func() (*interlock.Lease, error) { return b.Mutex("m").Acquire(limited(t)) })
			watchQueue(t, a, "m", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
			noError(t, lease.Release())
			noError(t, leased(t, got).Release())
		}
		now, stat, err := conn.Get("/m")
		noError(t, err)
		if string(now) != data || stat.Version != 0 {
			t.Errorf("%q became %q", data, now)
		}
		noError(t, conn.Delete("/m", -1))
	}
}

// Kazoo with default settings does not see the nodes of Curator's layout; with
// extra_lock_patterns=["-lock-"] it does. We see kazoo's nodes anyway, Curator
// does not.
func TestKazooWithPatterns(t *testing.T) {
	t.Parallel()
	s := lent(t)
	python := zkpeer.Kazoo(t, s.Addr, zkpeer.LockPatterns("-lock-"))
	c := program(t, s.Addr, "")
	alternate(t, c, python, "/m")
	countTogether(t, peerAdders(python, func(th *zkpeer.Thread) *zkpeer.Lock { return th.Mutex("/count") }),
		ourAdder(c.Mutex("count")), ourAdder(program(t, s.Addr, "").Mutex("count")))
}

func countWithCurator(t *testing.T, addr string, java *zkpeer.Peer) {
	theirs := clientsLock(t, addr, "/count")
	countTogether(t, peerAdders(java, func(th *zkpeer.Thread) *zkpeer.Lock { return th.Mutex("/count") }),
		ourAdder(program(t, addr, "").Mutex("count")), ourAdder(program(t, addr, "").Mutex("count")),
		func(_ context.Context, file string) error {
			return repeat(additions, func() error {
				if err := theirs.Lock(); err != nil {
					return err
				}
				return errors.Join(zkpeer.Increment(file), theirs.Unlock())
			})
		})
}

const additions = 25

// adder adds to the number in a file, under a lock.
type adder func(ctx context.Context, file string) error

func ourAdder(l *interlock.Lock) adder {
	return func(ctx context.Context, file string) error {
		return repeat(additions, func() error {
			lease, err := l.Acquire(ctx)
			if err != nil {
				return err
			}
			return errors.Join(zkpeer.Increment(file), lease.Release())
		})
	}
}

// peerAdders are two sessions of a peer.
func peerAdders(p *zkpeer.Peer, lock func(*zkpeer.Thread) *zkpeer.Lock) (all []adder) {
	for _, session := range []string{"a", "b"} {
		l := lock(p.Session(session).Thread("1"))
		all = append(all, func(ctx context.Context, file string) error { return l.Count(ctx, file, additions) })
	}
	return all
}

// countTogether has them all add to one number.
func countTogether(t *testing.T, theirs []adder, ours ...adder) {
	ctx, all := limited(t), append(theirs, ours...)
	file := filepath.Join(t.TempDir(), "number")
	noError(t, zkpeer.NewCount(file))
	done := make(chan error)
	for _, count := range all {
		go func() { done <- count(ctx, file) }()
	}
	for range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := errtest.Must(zkpeer.ReadCount(file))(t); n != len(all)*additions {
		t.Errorf("%d additions, the number is %d", len(all)*additions, n)
	}
}

// alternate: each keeps the other out, and follows it.
func alternate(t *testing.T, c *interlock.Client, peer *zkpeer.Peer, path string) {
	ctx, name, theirs := limited(t), path[1:], peer.Mutex(path)
	lease := errtest.Must(c.Mutex(name).Acquire(ctx))(t)
	isTaken(t, theirs)
	done := peerInBackground(func() error { return theirs.Acquire(ctx) })
	watchQueue(t, c, name, func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, lease.Release())
	noError(t, <-done)
	isBusy(t, c.Mutex(name))
	got := inBackground(func() (*interlock.Lease, error) { return c.Mutex(name).Acquire(ctx) })
	watchQueue(t, c, name, func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, theirs.Release())
	noError(t, leased(t, got).Release())
}

// readWrite: readers hold together, a writer of either side excludes all, and a
// writer that waits keeps later readers out.
func readWrite(t *testing.T, c *interlock.Client, peer *zkpeer.Peer, path string) {
	ctx, name := limited(t), path[1:]
	rw := c.RWMutex(name)
	theirs, other := peer.Thread("rw1"), peer.Thread("rw2")

	noError(t, theirs.Read(path).Acquire(ctx))
	r := errtest.Must(rw.Reader().Acquire(ctx))(t)
	noError(t, other.Read(path).Acquire(ctx))
	noError(t, other.Read(path).Release())
	isBusy(t, rw.Writer())

	w := inBackground(func() (*interlock.Lease, error) { return rw.Writer().Acquire(ctx) })
	watchQueue(t, c, name, func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	isTaken(t, other.Read(path)) // behind our writer
	noError(t, r.Release())
	noError(t, theirs.Read(path).Release())
	writer := leased(t, w)
	isTaken(t, other.Read(path))
	isTaken(t, other.Write(path))

	read := peerInBackground(func() error { return other.Read(path).Acquire(ctx) })
	watchQueue(t, c, name, func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	noError(t, writer.Release())
	noError(t, <-read)
	written := peerInBackground(func() error { return theirs.Write(path).Acquire(ctx) })
	watchQueue(t, c, name, func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	isBusy(t, rw.Reader()) // behind their writer
	got := inBackground(func() (*interlock.Lease, error) { return rw.Reader().Acquire(ctx) })
	watchQueue(t, c, name, func(q interlock.Queue) bool { return len(q.Waiters) == 2 })
	noError(t, other.Read(path).Release())
	noError(t, <-written)
	isBusy(t, rw.Reader())
	isBusy(t, rw.Writer())
	noError(t, theirs.Write(path).Release())
	noError(t, leased(t, got).Release())
}

// order: who came first holds first, whoever it is.
func order(t *testing.T, addr string, java *zkpeer.Peer) {
	c, ctx, path := program(t, addr, ""), limited(t), "/order"
	lease := errtest.Must(c.Mutex("order").Acquire(ctx))(t)
	const n = 6
	turns := make(chan int, n)
	done := make(chan error, n)
	for i := range n {
		ours := program(t, addr, "") // two of one program would be one ticket
		go func() {
			if i%2 == 1 {
				l, err := ours.Mutex("order").Acquire(ctx)
				if err == nil {
					turns <- i
					err = l.Release()
				}
				done <- err
				return
			}
			l := java.Thread(string(rune('a' + i))).Mutex(path)
			err := l.Acquire(ctx)
			if err == nil {
				turns <- i
				err = l.Release()
			}
			done <- err
		}()
		watchQueue(t, c, "order", func(q interlock.Queue) bool { return len(q.Waiters) == i+1 })
	}
	noError(t, lease.Release())
	for i := range n {
		if got := <-turns; got != i {
			t.Errorf("turn %d was of %d", i, got)
		}
		noError(t, <-done)
	}
}

// elect: one leads at a time, over many terms, and each is followed by the other.
func elect(t *testing.T, c *interlock.Client, theirs *zkpeer.Election) {
	ctx := limited(t)
	e := c.Election("leader")
	for range 8 {
		noError(t, theirs.Start())
		noError(t, theirs.Await(ctx))
		got := inBackground(func() (*interlock.Lease, error) { return e.Campaign(ctx, "ours") })
		watchQueue(t, c, "leader", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
		select {
		case <-got:
			t.Fatal("two lead")
		default:
		}
		noError(t, theirs.Resign())
		lease := leased(t, got)
		noError(t, theirs.Start())
		watchQueue(t, c, "leader", func(q interlock.Queue) bool {
			return len(q.Waiters) == 1 && len(q.Holders) == 1 && q.Holders[0].Note == "ours"
		})
		leads := errtest.Must(theirs.Leads())(t)
		if leads {
			t.Fatal("two lead")
		}
		noError(t, lease.Release())
		noError(t, theirs.Await(ctx))
		noError(t, theirs.Resign())
	}
	noError(t, theirs.Close())
}

func revokedByPeer(t *testing.T, c *interlock.Client, java *zkpeer.Peer) {
	lease := errtest.Must(c.Mutex("revoke").Acquire(limited(t)))(t)
	all := errtest.Must(java.Mutex("/revoke").Participants())(t)
	if len(all) != 1 {
		t.Fatalf("participants %q", all)
	}
	asked := lease.Revoked()
	noError(t, java.Revoke(all[0]))
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Fatal("the signal did not come")
	}
	if lease.Err() != nil {
		t.Error(lease.Err())
	}
	noError(t, lease.Release())
}

func revokePeer(t *testing.T, c *interlock.Client, java *zkpeer.Peer) {
	ctx, l := limited(t), java.Mutex("/revocable")
	noError(t, l.MakeRevocable())
	noError(t, l.Acquire(ctx))
	q := watchQueue(t, c, "revocable", func(q interlock.Queue) bool { return len(q.Holders) == 1 })
	noError(t, c.Admin().Revoke(ctx, "revocable", q.Holders[0].ID))
	e := errtest.Must(java.Await(ctx, zkpeer.Revoked))(t)
	if e.Path != "/revocable" {
		t.Errorf("%+v", e)
	}
	noError(t, l.Release())
	lease := errtest.Must(c.Mutex("revocable").Acquire(ctx))(t)
	noError(t, lease.Release())
}

// program is a program of ours.
func program(t *testing.T, addr, options string) *interlock.Client {
	t.Helper()
	c := errtest.Must(interlock.Open(limited(t), "zk://"+addr+"/"+options))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func connected(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false))
	noError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func clientsLock(t *testing.T, addr, path string) *zk.Lock {
	return zk.NewLock(connected(t, addr), path, zk.WorldACL(zk.PermAll))
}

var noError = errtest.None

// limited ends what hangs.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	t.Cleanup(cancel)
	return ctx
}

type acquisition struct {
	lease *interlock.Lease
	err   error
}

func inBackground(f func() (*interlock.Lease, error)) <-chan acquisition {
	got := make(chan acquisition, 1)
	go func() {
		l, err := f()
		got <- acquisition{l, err}
	}()
	return got
}

func peerInBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func leased(t *testing.T, got <-chan acquisition) *interlock.Lease {
	t.Helper()
	o := <-got
	noError(t, o.err)
	return o.lease
}

func isBusy(t *testing.T, l *interlock.Lock) {
	t.Helper()
	if _, err := l.TryAcquire(limited(t)); !errors.Is(err, driver.ErrBusy) {
		t.Fatalf("TryAcquire: %v", err)
	}
}

func isTaken(t *testing.T, l *zkpeer.Lock) {
	t.Helper()
	ok := errtest.Must(l.TryAcquire(limited(t), 20*time.Millisecond))(t)
	if ok {
		t.Fatal("two hold it")
	}
}

// watchQueue waits until the queue is as it should be.
func watchQueue(t *testing.T, c *interlock.Client, name string, ok func(interlock.Queue) bool) interlock.Queue {
	t.Helper()
	var q interlock.Queue
	var err error
	for q, err = range c.Admin().Follow(limited(t), name) {
		noError(t, err)
		if ok(q) {
			return q
		}
	}
	t.Fatalf("it is not so: %+v", q)
	return q
}
