//go:build linux

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// reached is one of the backends of a multi-lock, as two clients reach it.
type reached struct {
	name        string
	url         string
	server      server // nil: a file
	mine, other *interlock.Client
	lock, again *interlock.Lock // of mine, and of other
}

// A multi-lock over a file and three servers. In whatever order the parts are lost, and when all servers
// stand still for longer than a TTL: nothing is left locked.
func TestAMultiLockOverFourBackendsLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	redis, zk, pg := redistest.Start(t), zktest.Start(t), pgtest.Start(t)
	proxy := pgtest.NewProxy(t, pg.Addr)
	all := []*reached{
		{name: "SQLite", url: testURL(t, "?")},
		{name: "Redis", url: redis.URL() + "?", server: redis},
		{name: "ZooKeeper", url: "zk://" + zk.Addr + "/?", server: zk},
		{name: "PostgreSQL", url: strings.Replace(pg.URL(), pg.Addr, proxy.Addr, 1) + "&", server: behind{pg, proxy}},
	}
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	open := func(url string) *interlock.Client {
		c := errtest.Must(interlock.Open(ctx, url+"ttl=3s"))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var locks, others []*interlock.Lock
	for _, r := range all {
		r.mine, r.other = open(r.url), open(r.url)
		r.lock, r.again = r.mine.Mutex("accounts/"+r.name), r.other.Mutex("accounts/"+r.name)
		locks, others = append(locks, r.lock), append(others, r.again)
	}
	whole, otherwise := interlock.All(locks...), interlock.All(others...)

	acquire := func(l *interlock.Lock) *interlock.Lease {
		t.Helper()
		lease := errtest.Must(l.Acquire(ctx))(t)
		return lease
	}
	lostAndFree := func(lease *interlock.Lease) {
		t.Helper()
		select {
		case <-lease.Done():
		case <-ctx.Done():
			t.Fatal("the whole is not lost")
		}
		if err := lease.Release(); !errors.Is(err, interlock.ErrLost) {
			t.Fatalf("released: %v", err)
		}
		next := acquire(otherwise)
		errtest.None(t, next.Release())
	}
	for _, order := range permutations(len(all)) {
		lease := acquire(whole)
		for _, i := range order {
			r := all[i]
			if err := r.other.Admin().Evict(ctx, r.lock.Name(), lease.Parts()[i].ID(), true); err != nil && !errors.Is(err, interlock.ErrLost) {
				t.Fatalf("%v: evict from %s: %v", order, r.name, err)
			}
			if i == order[0] {
				select {
				case <-lease.Done():
				case <-ctx.Done():
					t.Fatalf("%v: the whole is not lost", order)
				}
			}
		}
		lostAndFree(lease)
	}
	lease := acquire(whole)
	work, free := lease.Bind(ctx)
	defer free()
	for _, r := range all {
		if r.server != nil {
			r.server.Pause()
			time.AfterFunc(6*time.Second, r.server.Resume) // longer than a TTL
		}
	}
	<-work.Done()
	if err := context.Cause(work); !errors.Is(err, interlock.ErrLost) || !strings.Contains(err.Error(), "accounts/") {
		t.Errorf("three servers stand still: %v", err)
	}
	free() // if it took the machine long, the record that the work went on has to go, too
	lostAndFree(lease)
	for _, r := range all {
		left := func() (q interlock.Queue, found bool, err error) {
			for q, err := range r.other.Admin().Queues(ctx, "") {
				return q, true, err
			}
			return q, false, nil
		}
		q, found, err := left()
		for ; found && err == nil && ctx.Err() == nil; q, found, err = left() {
			time.Sleep(10 * time.Millisecond)
		}
		if found || err != nil {
			t.Errorf("%s: left behind: %+v, %v", r.name, q, err)
		}
	}
}

// permutations are all orders of the numbers below n.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, p := range permutations(n - 1) {
		for at := range n {
			q := append(append(append([]int{}, p[:at]...), n-1), p[at:]...)
			all = append(all, q)
		}
	}
	return all
}
