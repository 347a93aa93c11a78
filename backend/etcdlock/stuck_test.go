package etcdlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Promise: while clients hand a lock on, a holder that is connected to a leader whose disk is stuck gives up before
// the next one holds. That leader goes on to answer heartbeats, while the next leader counts the lease down.
// ETCDLOCK_FREEZES has so many leaders be stuck, one after the other, for 20 s each.
func TestAHolderBehindAStuckLeaderGivesUpBeforeTheNextOneHolds(t *testing.T) {
	t.Parallel()
	freezes, span := 1, time.Duration(0)
	if n, err := strconv.Atoi(os.Getenv("ETCDLOCK_FREEZES")); err == nil {
		freezes, span = n, 20*time.Second
	}
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		c := etcdtest.StartCluster(t, 3, of)
		a := &account{t: t}
		for range freezes {
			a.freeze(c, span)
		}
		t.Logf("%d grants", a.grants)
	})
}

// Promise: a heartbeat counts only if the lease was extended, and its tickets were read, in one term of Raft.
func TestAHeartbeatInTwoTermsOfRaftIsNone(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	later := func(h *pb.ResponseHeader) { h.RaftTerm++ }
	for name, lies := range map[string]lie{
		"extended later": lieOf("LeaseKeepAlive", 0, func(r *pb.LeaseKeepAliveResponse) { later(r.Header) }),
		"read later":     txn(func(r *pb.TxnResponse) { later(r.Header) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newImpostor(t, s)
			lease := errtest.Must(open(t, "etcd://"+i.addr, interlock.TTL(3*time.Second)).Mutex(name).Acquire(limited(t)))(t)
			i.lies.Store(&lies)
			select {
			case <-lease.Done():
			case <-time.After(bound()):
				t.Error("the holder is told nothing")
			}
		})
	}
}

// freeze has clients hand a lock on until one that is connected to the leader has it, and then has
// the leader's disk be stuck until the others have handed the lock on, for the span at least.
func (a *account) freeze(c *etcdtest.Cluster, span time.Duration) {
	leader := c.Leader()
	others := c.Others(leader)
	ctx, stop := context.WithTimeout(a.t.Context(), bound()+span)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	client := func(endpoints string) *interlock.Lock {
		return open(a.t, "etcd://"+endpoints, interlock.TTL(3*time.Second)).Mutex("m")
	}
	for _, endpoints := range []string{others[0].Addr, others[1].Addr, others[0].Addr + "," + others[1].Addr} {
		m := client(endpoints)
		workers.Go(func() {
			for ctx.Err() == nil {
				a.work(ctx, m, func(lease *interlock.Lease) { a.pause(lease.Done(), rand.N(20*time.Millisecond)) })
			}
		})
	}
	behind := client(leader.Addr)
	a.handedOn(10)
	a.work(ctx, behind, func(lease *interlock.Lease) {
		release := leader.StickDisk()
		defer release()
		began := time.Now()
		other := raw(a.t, others[0].Addr)
		workers.Go(func() { _, _ = other.Put(ctx, "x", "y") }) // which the leader has to write; its answer may be lost
		a.handedOn(10)
		if lease.Err() == nil {
			a.t.Error("nobody has told the holder")
		}
		a.pause(ctx.Done(), span-time.Since(began))
		a.handedOn(10)
	})
	// Before 3.4.31 the leader that comes back ends leases that it has not seen renewed.
	c.Leader()
	a.handedOn(10)
	a.work(ctx, behind, func(*interlock.Lease) {})
}

// account is who holds, by the word of the holders themselves.
type account struct {
	t      *testing.T
	mu     sync.Mutex
	all    map[*interlock.Lease]bool // those that were not released
	last   uint64
	grants int
}

// work holds the lock once.
func (a *account) work(ctx context.Context, m *interlock.Lock, do func(*interlock.Lease)) {
	lease, err := m.Acquire(ctx)
	if err != nil {
		return
	}
	a.enter(lease)
	do(lease)
	a.mu.Lock()
	delete(a.all, lease)
	a.mu.Unlock()
	if err := lease.Release(); err != nil && !errors.Is(err, interlock.ErrLost) && ctx.Err() == nil {
		a.t.Errorf("Release: %v", err)
	}
}

func (a *account) enter(lease *interlock.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other := range a.all {
		if other.Err() == nil && lease.Err() == nil {
			a.t.Errorf("two hold: %d until %v, and %d until %v", other.Token(), other.Deadline(), lease.Token(), lease.Deadline())
		}
	}
	if lease.Token() <= a.last {
		a.t.Errorf("token %d after %d", lease.Token(), a.last)
	}
	if a.all == nil {
		a.all = map[*interlock.Lease]bool{}
	}
	a.all[lease], a.last = true, lease.Token()
	a.grants++
}

// handedOn waits until the lock was handed on that many times.
func (a *account) handedOn(times int) {
	a.t.Helper()
	count := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.grants
	}
	from := count()
	busy.Until(a.t, "the lock is handed on", func() bool { return count() >= from+times })
}

func (a *account) pause(end <-chan struct{}, d time.Duration) {
	select {
	case <-end:
	case <-time.After(d):
	}
}
