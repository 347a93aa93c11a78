package etcdlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: while requests arrive and answers do not, a lock that was lost is passed on within two TTLs: its client does
// not go on extending what it has given up.
func TestAMuteServerKeepsNoLostLock(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	proxy := testserver.NewProxy(t, s.Addr)
	const ttl = 4 * time.Second
	lease := errtest.Must(open(t, "etcd://"+proxy.Addr, interlock.TTL(ttl)).Mutex("m").Acquire(limited(t)))(t)
	next := open(t, "etcd://"+s.Addr, interlock.TTL(ttl))
	proxy.Late()
	t.Cleanup(proxy.Resume)
	began := time.Now()
	got := errtest.Must(next.Mutex("m").Acquire(limited(t)))(t)
	took := time.Since(began)
	if lease.Err() == nil {
		t.Error("the holder was not told")
	}
	if took > 3*ttl { // the servers look for what has ended, and this machine may be slow
		t.Errorf("passed on after %v", took)
	}
	t.Logf("passed on after %v, at a TTL of %v", took, ttl)
	noError(t, got.Release())
}

// Promise: an outage of two fifths of the TTL in which connections are refused loses nothing.
func TestARefusedConnectionIsTriedAgainInTime(t *testing.T) {
	t.Parallel()
	s := etcdlock.Servers.Lend(t)
	proxy := testserver.NewProxy(t, s.Addr)
	const ttl = 6 * time.Second
	hold := func(url, name string) *interlock.Lease {
		lease := errtest.Must(open(t, url, interlock.TTL(ttl)).Mutex(name).Acquire(limited(t)))(t)
		return lease
	}
	control := hold("etcd://"+s.Addr, "control")
	var leases []*interlock.Lease
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		leases = append(leases, hold("etcd://"+proxy.Addr, name))
		time.Sleep(ttl / 18)
	}
	time.Sleep(ttl)
	proxy.Refuse(true)
	proxy.Cut()
	time.Sleep(ttl * 2 / 5)
	proxy.Refuse(false)
	time.Sleep(ttl)
	if control.Err() != nil {
		t.Skip("this machine is too slow: a lease whose connection was never cut is lost, too")
	}
	for _, l := range leases {
		if err := l.Err(); err != nil {
			t.Errorf("%s: %v", l.Name(), err)
		}
	}
}

// Promise: a client that is opened just as the leader of the cluster has died waits for the next one.
func TestAClientIsOpenedWhileTheLeaderChanges(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	leader := c.Leader()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	url := ""
	for _, s := range c.Others(leader) {
		if url != "" {
			url += ","
		}
		url += s.Addr
	}
	leader.Kill()
	client := errtest.Must(interlock.Open(ctx, "etcd://"+url))(t)
	errtest.Is(t, client.Close(), nil)
	doctortest.ExamineURL(t, "etcd://"+url+","+leader.Addr).Has("members", driver.Warn, "do not serve: "+leader.Addr)
	doctortest.ExamineURL(t, "etcd://"+url).Has("members", driver.Warn, "of 3 members the URL names 2")
}
