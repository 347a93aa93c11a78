package etcdlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// bound is the time that no test needs.
func bound() time.Duration { return busy.Bound(45 * time.Second) }

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), bound())
	t.Cleanup(cancel)
	return ctx
}

func raw(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	c := errtest.Must(clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open(t *testing.T, url string, opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	c := errtest.Must(interlock.Open(limited(t), url, append([]interlock.ClientOption{interlock.TTL(5 * time.Second)}, opts...)...))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// counter is a number in a plain file: it is exact in the end if one at a time adds to it.
type counter string

func newCounter(t *testing.T) counter {
	c := counter(filepath.Join(t.TempDir(), "counter"))
	noError(t, os.WriteFile(string(c), []byte("0\n"), 0o600))
	return c
}

func (c counter) value() (int, error) {
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (c counter) add() error {
	n, err := c.value()
	if err != nil {
		return err
	}
	time.Sleep(time.Millisecond) // somebody else would have read the same
	return os.WriteFile(string(c), []byte(strconv.Itoa(n+1)+"\n"), 0o600)
}

// Promise: etcdctl lock, Go programs on etcd's package concurrency, and Interlock exclude each other.
func TestOneAtATimeWithOtherPrograms(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	const name, rounds, of = "a/lock", 25, 2
	c := newCounter(t)
	var all sync.WaitGroup
	run := func(what string, once func() error) {
		all.Go(func() {
			for range rounds {
				if err := once(); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	ctx := limited(t)
	for range of {
		ours := open(t, "etcd://"+s.Addr).Mutex(name)
		run("Interlock", func() error { return ours.Do(ctx, func(context.Context) error { return c.add() }) })

		session := errtest.Must(concurrency.NewSession(raw(t, s.Addr)))(t)
		theirs := concurrency.NewMutex(session, name)
		run("concurrency", func() error {
			if err := theirs.Lock(ctx); err != nil {
				return err
			}
			defer func() { _ = theirs.Unlock(ctx) }()
			return c.add()
		})
		script := fmt.Sprintf("n=$(cat %[1]s); sleep 0.001; echo $((n+1)) >%[1]s", c)
		run("etcdctl lock", func() error {
			if out, err := s.Command(ctx, "lock", name, "--", "sh", "-c", script).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	all.Wait()
	if n, err := c.value(); err != nil || n != 3*of*rounds {
		t.Errorf("the counter is %d, %v; it must be %d", n, err, 3*of*rounds)
	}
}

// Promise: elections of etcdctl elect, of package concurrency and of Interlock are one, and each shows the
// value of the leader.
func TestOneLeaderWithOtherPrograms(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	ctx := limited(t)
	ours := open(t, "etcd://"+s.Addr).Election("leader")
	lease := errtest.Must(ours.Campaign(ctx, "our value"))(t)

	session := errtest.Must(concurrency.NewSession(raw(t, s.Addr)))(t)
	theirs := concurrency.NewElection(session, "leader")
	if got, err := theirs.Leader(ctx); err != nil || !strings.HasPrefix(string(got.Kvs[0].Value), "our value\x00") {
		t.Fatalf("package concurrency sees %v, %v", got, err)
	}
	led := make(chan error, 1)
	go func() { led <- theirs.Campaign(ctx, "their value") }()
	q := open(t, "etcd://"+s.Addr)
	busy.Until(t, "they wait", func() bool {
		got, err := q.Admin().Queue(ctx, "leader")
		return err == nil && len(got.Holders) == 1 && len(got.Waiters) == 1
	})
	select {
	case err := <-led:
		t.Fatalf("there are two leaders: %v", err)
	default:
	}
	noError(t, lease.Release())
	noError(t, <-led)
	got, err := q.Admin().Queue(ctx, "leader")
	if err != nil || len(got.Holders) != 1 || got.Holders[0].Note != "their value" {
		t.Fatalf("their leadership is seen as %+v, %v", got, err)
	}
	again := make(chan error, 1)
	go func() {
		_, err := ours.Campaign(ctx, "us again")
		again <- err
	}()
	busy.Until(t, "we wait", func() bool {
		got, err := q.Admin().Queue(ctx, "leader")
		return err == nil && len(got.Waiters) == 1
	})

	elect, cancel := context.WithCancel(ctx)
	defer cancel()
	third := s.Command(elect, "elect", "leader", "by etcdctl")
	noError(t, third.Start())
	busy.Until(t, "etcdctl waits", func() bool {
		got, err := q.Admin().Queue(ctx, "leader")
		return err == nil && len(got.Waiters) == 2
	})
	noError(t, theirs.Resign(ctx))
	noError(t, <-again)
	cancel()
	_ = third.Wait()
}

// Promise: locks foo and foo/bar do not disturb each other.
func TestALockBelowAnotherOneIsAnother(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	ctx := limited(t)
	a, b := open(t, "etcd://"+s.Addr), open(t, "etcd://"+s.Addr)
	for _, name := range []string{"foo", "foo/bar", "foo/bar/baz"} {
		_, err := a.Mutex(name).Acquire(ctx)
		noError(t, err)
	}
	for i := range 20 { // more than are read at first
		_, err := a.Mutex(fmt.Sprintf("foo/%d", i)).Acquire(ctx)
		noError(t, err)
	}
	lease := errtest.Must(a.Mutex("free").Acquire(ctx))(t)
	got := make(chan error, 1)
	go func() {
		_, err := b.Mutex("free").Acquire(ctx)
		got <- err
	}()
	noError(t, lease.Release())
	noError(t, <-got)
	for name, err := range a.Admin().Queues(ctx, "foo") {
		if err != nil || len(name.Holders) != 1 || len(name.Waiters) != 0 {
			t.Fatalf("a queue is %+v, %v", name, err)
		}
	}
}

// Promise: Revoke of another program's lock does nothing, Evict removes its waiter and not its holder, and with force
// its holder.
func TestAnotherProgramIsEvicted(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	ctx := limited(t)
	c := open(t, "etcd://"+s.Addr)
	lock := func() (locked chan error) {
		session := errtest.Must(concurrency.NewSession(raw(t, s.Addr)))(t)
		locked = make(chan error, 1)
		go func() { locked <- concurrency.NewMutex(session, "a/b").Lock(ctx) }()
		return locked
	}
	members := func(holders, waiters int) (q interlock.Queue) {
		t.Helper()
		busy.Until(t, fmt.Sprintf("%d hold and %d wait", holders, waiters), func() bool {
			var err error
			q, err = c.Admin().Queue(ctx, "a/b")
			return err == nil && len(q.Holders) == holders && len(q.Waiters) == waiters
		})
		return q
	}
	noError(t, <-lock())
	members(1, 0)
	waiter := lock()
	q := members(1, 1)
	holder := q.Holders[0]
	if !holder.Foreign || !q.Waiters[0].Foreign {
		t.Errorf("they are shown as %+v", q)
	}
	noError(t, c.Admin().Revoke(ctx, "a/b", holder.ID))
	noError(t, c.Admin().Evict(ctx, "a/b", holder.ID, false))
	members(1, 1)
	noError(t, c.Admin().Evict(ctx, "a/b", q.Waiters[0].ID, false))
	if got := members(1, 0).Holders[0]; got.ID != holder.ID {
		t.Errorf("%s holds, not %s", got.ID, holder.ID)
	}
	noError(t, c.Admin().Evict(ctx, "a/b", holder.ID, true))
	members(0, 0)
	<-waiter
	errtest.Is(t, c.Admin().Evict(ctx, "a/b", holder.ID, true), interlock.ErrLost, "evicted again")
}

// Promise: who is told that others take a lock for another kind is told which of our programs do, also behind another
// program, which agrees with all.
func TestADisagreementIsNotWithAnotherProgram(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	ctx := limited(t)
	session := errtest.Must(concurrency.NewSession(raw(t, s.Addr)))(t)
	noError(t, concurrency.NewMutex(session, "a").Lock(ctx))
	waiting := open(t, "etcd://"+s.Addr, interlock.Owner("ours"))
	go func() { _, _ = waiting.Mutex("a").Acquire(ctx) }()
	c := open(t, "etcd://"+s.Addr)
	busy.Until(t, "ours waits", func() bool {
		q, err := c.Admin().Queue(ctx, "a")
		return err == nil && len(q.Waiters) == 1
	})
	_, err := c.RWMutex("a").Reader().TryAcquire(ctx)
	if !errors.Is(err, interlock.ErrMismatch) || !strings.Contains(err.Error(), "for ours it is a mutex") {
		t.Errorf("it says: %v", err)
	}
}
