package etcdlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: clients of several members lose no lease to one that is stopped, though each call may go there.
func TestAStoppedMemberCostsNoLease(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	ctx, cancel := context.WithCancel(limited(t))
	ttl := busy.Bound(2 * time.Second)
	held, until := make([]*interlock.Lease, 8), make([]time.Time, 8)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for i := range held {
		a := open(t, "etcd://"+c.Endpoints(), interlock.TTL(ttl))
		held[i] = errtest.Must(a.Mutex(fmt.Sprint(i)).Acquire(ctx))(t)
		others.Go(func() {
			for ctx.Err() == nil {
				if l, err := a.Mutex(fmt.Sprint("other ", i)).TryAcquire(ctx); err == nil {
					_ = l.Release()
				}
			}
		})
	}
	c.Others(c.Leader())[0].Pause()
	for i, l := range held {
		until[i] = l.Deadline().Add(3 * ttl)
	}
	for i, l := range held {
		busy.Until(t, "it is renewed for three TTLs", func() bool { return l.Deadline().After(until[i]) || l.Err() != nil })
		noError(t, l.Err())
	}
}

// Promise: a lock outlasts the death of the leader, and a leader that is stopped, if the client knows the
// other members.
func TestALockOutlastsItsLeader(t *testing.T) {
	t.Parallel()
	for what, disturb := range map[string]func(*etcdtest.Server){
		"killed":  func(s *etcdtest.Server) { s.Kill() },
		"stopped": func(s *etcdtest.Server) { s.Pause() },
	} {
		onBoth(t, what, func(t *testing.T, of etcdtest.Option) {
			c := etcdtest.StartCluster(t, 3, of)
			ctx := limited(t)
			a, b := open(t, "etcd://"+c.Endpoints(), interlock.TTL(20*time.Second)), open(t, "etcd://"+c.Endpoints(), interlock.TTL(20*time.Second))
			held := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
			got := make(chan error, 1)
			go func() {
				_, err := b.Mutex("m").Acquire(ctx)
				got <- err
			}()
			busy.Until(t, "it waits", func() bool {
				q, err := b.Admin().Queue(ctx, "m")
				return err == nil && len(q.Waiters) == 1
			})
			leader := c.Leader()
			disturb(leader)
			c.Leader(c.Others(leader)...)
			// It is renewed by the others.
			from := held.Deadline()
			busy.Until(t, "it is renewed", func() bool { return held.Deadline().After(from.Add(time.Second)) || held.Err() != nil })
			noError(t, held.Err())
			select {
			case err := <-got:
				t.Fatalf("another one holds: %v", err)
			default:
			}
			noError(t, held.Release())
			noError(t, <-got)
			if what == "stopped" {
				leader.Resume()
			}
		})
	}
}

// Promise: without a majority a holder gives up in time, and locks are there again when the majority is.
func TestAMajorityThatComesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		c := etcdtest.StartCluster(t, 3, of)
		ctx := limited(t)
		a := open(t, "etcd://"+c.Endpoints(), interlock.TTL(3*time.Second))
		held := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
		away := c.Servers[:2]
		for _, s := range away {
			s.Kill()
		}
		select {
		case <-held.Done():
		case <-ctx.Done():
			t.Fatal("the holder goes on without a majority")
		}
		c.Restart(away...)
		c.Leader() // else much of the short TTL may have passed when the grant is answered
		again := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
		if again.Token() <= held.Token() {
			t.Errorf("the token %d follows %d", again.Token(), held.Token())
		}
		noError(t, again.Release())
	})
}

// Promise: a member that comes back with an empty disk, be it the leader, costs no lease, and leaves no waiter behind.
func TestAMemberIsReplaced(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		c := etcdtest.StartCluster(t, 3, of)
		ctx := limited(t)
		var holders, waiters []*interlock.Client
		for range c.Servers {
			holders = append(holders, open(t, "etcd://"+c.Endpoints(), interlock.TTL(20*time.Second)))
			waiters = append(waiters, open(t, "etcd://"+c.Endpoints(), interlock.TTL(20*time.Second)))
		}
		var held []*interlock.Lease
		got := make(chan error, len(waiters))
		for i := range holders {
			name := fmt.Sprint("m", i)
			lease := errtest.Must(holders[i].Mutex(name).Acquire(ctx))(t)
			held = append(held, lease)
			go func() {
				_, err := waiters[i].Mutex(name).Acquire(ctx)
				got <- err
			}()
			busy.Until(t, "it waits", func() bool {
				q, err := holders[i].Admin().Queue(ctx, name)
				return err == nil && len(q.Waiters) == 1
			})
		}
		for _, replaced := range c.Servers {
			c.Replace(replaced)
			c.Leader()
		}
		for _, lease := range held {
			from := time.Now()
			busy.Until(t, "it is renewed", func() bool { return lease.Deadline().After(from.Add(15*time.Second)) || lease.Err() != nil })
			noError(t, lease.Err())
		}
		select {
		case err := <-got:
			t.Fatalf("another one holds: %v", err)
		default:
		}
		for _, lease := range held {
			noError(t, lease.Release())
		}
		for range waiters {
			noError(t, <-got)
		}
	})
}

// Promise: who holds is told at once when its lease is revoked, by hand or by a leader that was replaced.
func TestAHolderIsToldThatItsLeaseWasRevoked(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	ctx := limited(t)
	a := open(t, "etcd://"+s.Addr, interlock.TTL(10*time.Minute)) // its heartbeat is far
	held := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
	etcd := raw(t, s.Addr)
	got, err := etcd.Get(ctx, "m/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("there are %d tickets, %v", len(got.Kvs), err)
	}
	errtest.Must(etcd.Revoke(ctx, clientv3.LeaseID(got.Kvs[0].Lease)))(t)
	select {
	case <-held.Done():
	case <-ctx.Done():
		t.Fatal("nobody has told the holder")
	}
	if !errors.Is(held.Err(), interlock.ErrLost) {
		t.Errorf("it is told %v", held.Err())
	}
	again := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
	noError(t, again.Release())
}

// Promise: a waiter whose watch is lost, and cannot be resumed since the revisions were compacted, is granted.
func TestCompactionLeavesNoWaiterBehind(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	proxy := testserver.NewProxy(t, s.Addr)
	ctx := limited(t)
	a, b := open(t, "etcd://"+s.Addr), open(t, "etcd://"+proxy.Addr, interlock.TTL(10*time.Minute))
	held := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
	got := make(chan error, 1)
	go func() {
		_, err := b.Mutex("m").Acquire(ctx)
		got <- err
	}()
	busy.Until(t, "it waits", func() bool {
		q, err := a.Admin().Queue(ctx, "m")
		return err == nil && len(q.Waiters) == 1
	})
	proxy.Refuse(true)
	proxy.Cut()
	noError(t, held.Release())
	etcd := raw(t, s.Addr)
	var last int64
	for range 5 {
		r := errtest.Must(etcd.Put(ctx, "x", "y"))(t)
		last = r.Header.Revision
	}
	errtest.Must(etcd.Compact(ctx, last, clientv3.WithCompactPhysical()))(t)
	proxy.Refuse(false)
	noError(t, <-got)
}

// Promise: a transaction of the caller's own is refused as soon as the lock is not held any more.
func TestStands(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	ctx := limited(t)
	a := open(t, "etcd://"+s.Addr+"/app")
	lease := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
	etcd := raw(t, s.Addr)
	stands := errtest.Must(etcdlock.Stands(ctx, etcd, "m", lease.ID(), etcdlock.Namespace("app")))(t)
	write := func() bool {
		r := errtest.Must(etcd.Txn(ctx).If(stands).Then(clientv3.OpPut("data", "x")).Commit())(t)
		return r.Succeeded
	}
	if !write() {
		t.Error("the holder is refused")
	}
	noError(t, a.Admin().Evict(ctx, "m", lease.ID(), true))
	if write() {
		t.Error("who does not hold any more is not refused")
	}
	if _, err := etcdlock.Stands(ctx, etcd, "m", lease.ID(), etcdlock.Namespace("app")); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the lock is not held any more: %v", err)
	}
}
