package quorumlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// timed is a member whose clock can be set. The holder reaches it by a proxy of its own.
type timed struct {
	server *redistest.Server
	own    *redistest.Proxy
}

// startTimed starts members, in the order in which clients wait at them.
func startTimed(t *testing.T, n int, ttl time.Duration) (all []timed, urls, own []string) {
	t.Helper()
	for range n {
		s := redistest.Start(t, redistest.FakeTime(0))
		all = append(all, timed{s, redistest.NewProxy(t, s.Addr)})
		urls = append(urls, s.URL())
	}
	awaitMembers(t, quorumURL(urls), ttl, n)
	lives := map[*redistest.Server]string{}
	for _, m := range all {
		lives[m.server] = lifeAt(t, m.server.URL())
	}
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(lives[a.server], lives[b.server]) })
	urls = nil
	for _, m := range all {
		urls, own = append(urls, m.server.URL()), append(own, "redis://"+m.own.Addr)
	}
	return all, urls, own
}

func memberDriver(t *testing.T, url string) driver.Driver {
	t.Helper()
	u := errtest.Must(driver.ParseURL(url))(t)
	d := errtest.Must(driver.OpenURL(t.Context(), u))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func lifeAt(t *testing.T, url string) string {
	t.Helper()
	c := errtest.Must(memberDriver(t, url).Load(t.Context(), "interlock-quorum/life/value"))(t)
	return string(c.Value)
}

func openQuorum(t *testing.T, urls []string, ttl time.Duration) *interlock.Client {
	t.Helper()
	c := chaos.Open(t, quorumURL(urls), ttl)
	t.Cleanup(func() { c.Close() })
	return c
}

// acquires gets the lock in one line, or by tries, and within a time.
func acquires(t *testing.T, c *interlock.Client, try bool, within time.Duration) *interlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	l, err := c.Mutex("q").TryAcquire(ctx)
	for err != nil && ctx.Err() == nil {
		if !try {
			l, err = c.Mutex("q").Acquire(ctx)
			break
		}
		time.Sleep(20 * time.Millisecond)
		l, err = c.Mutex("q").TryAcquire(ctx)
	}
	if err != nil {
		t.Fatalf("not within %v: %v", within, err)
	}
	return l
}

// Promise: members whose clocks are set forward, a minority, give a lock to nobody while its holder has it,
// although the holder has no more than a majority.
func TestAClockSetForwardGivesNoLockAway(t *testing.T) {
	const ttl, patience = 12 * time.Second, 2 * time.Second // how long clients wait for a member
	for _, c := range []struct{ members, forward int }{{3, 1}, {5, 1}, {5, 2}} {
		for _, try := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d of %d/try=%v", c.forward, c.members, try), func(t *testing.T) {
				t.Parallel()
				for range 5 {
					all, urls, own := startTimed(t, c.members, ttl)
					slowest := feel(t, urls)
					few := (c.members - 1) / 2
					for _, m := range all[:few] {
						m.own.Refuse(true) // the holder has the others
					}
					holder, other := openQuorum(t, own, ttl), openQuorum(t, urls, ttl)
					var w chaos.Witness
					errtest.Must(w.Enter(acquires(t, holder, true, time.Minute)))(t)
					for _, m := range all[few:][:c.forward] {
						m.server.StepClock(time.Minute)
					}
					_, err := w.Enter(acquires(t, other, try, time.Minute))
					if err == nil {
						return
					}
					// A member that does not answer in time has failed beside those whose clocks are wrong.
					if felt := slowest(); felt < patience/4 {
						t.Fatal(err)
					} else {
						t.Logf("a member took %v to answer; again", felt)
					}
				}
				t.Fatal("this machine is too slow")
			})
		}
	}
}

// feel asks each member again and again, and returns what the slowest answer took.
func feel(t *testing.T, urls []string) (slowest func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	took := make([]atomic.Int64, len(urls))
	for i, url := range urls {
		d := memberDriver(t, url)
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				_, _ = d.Load(ctx, "felt/value")
				took[i].Store(max(took[i].Load(), int64(time.Since(began))))
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	stop := func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return func() (d time.Duration) {
		stop()
		for i := range took {
			d = max(d, time.Duration(took[i].Load()))
		}
		return d
	}
}

// Promise: a member that has lost its data, and whose clock is set forward then, does not count before a TTL has
// passed.
func TestAnEmptyMemberWhoseClockIsSetForwardDoesNotCount(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	all, urls, own := startTimed(t, 3, ttl)
	all[0].own.Refuse(true) // the holder has the last two
	holder := openQuorum(t, own, ttl)
	var w chaos.Witness
	errtest.Must(w.Enter(acquires(t, holder, true, time.Minute)))(t)
	lost := all[1]
	lost.own.Hang()
	lost.server.Kill()
	lost.server.Restart()
	openQuorum(t, urls, ttl) // begins the time that it has to wait
	lost.server.StepClock(time.Minute)
	if _, err := w.Enter(acquires(t, openQuorum(t, urls, ttl), true, time.Minute)); err != nil {
		t.Error(err)
	}
}

// Promise: the time that an empty member has to wait goes on while programs end and others start.
func TestProgramsThatEndSoonMakeAMemberCount(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	_, urls := startRedis(t, 3)
	for began := time.Now(); ; time.Sleep(ttl / 10) {
		c := openQuorum(t, urls, ttl)
		_, err := c.Mutex("q").TryAcquire(t.Context())
		c.Close()
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}

// Promise: a member that keeps the place of a dead client, since its clock was set back, or since it cannot see the
// death, keeps nobody out for long.
func TestAMemberThatKeepsADeadTicketKeepsNobodyOut(t *testing.T) {
	const ttl = 2 * time.Second
	for _, n := range []int{3, 5} {
		for _, try := range []bool{true, false} {
			t.Run(fmt.Sprintf("a clock set back, %d members/try=%v", n, try), func(t *testing.T) {
				t.Parallel()
				all, urls, own := startTimed(t, n, ttl)
				holder, other := openQuorum(t, own, ttl), openQuorum(t, urls, ttl)
				acquires(t, holder, true, time.Minute)
				for _, m := range all {
					m.own.Refuse(true)
					m.own.Cut()
				}
				all[0].server.StepClock(-10 * time.Minute)
				began := time.Now()
				l := acquires(t, other, try, 10*ttl) // 1 until it is over, 1 until it is looked at, 1 more: see docs/quorum.md
				errtest.Is(t, l.Release(), nil)
				for q, err := range other.Admin().Queues(t.Context(), "") {
					if err != nil || len(q.Waiters) != 1 || q.Waiters[0].At != urls[0] {
						t.Errorf("what %s keeps is shown as %+v, %v", urls[0], q.Waiters, err)
					}
				}
				t.Logf("the first one after %v", time.Since(began))
				acquires(t, other, try, 10*ttl)
			})
		}
	}
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		_, servers := startRedis(t, 2)
		var urls []string
		var file string
		for i := 0; ; i++ { // until the file is the line, which is one of three at random
			file = "file://" + t.TempDir()
			urls = []string{fmt.Sprintf("%s/%d", servers[0], i%16), fmt.Sprintf("%s/%d", servers[1], i%16), file}
			awaitMembers(t, quorumURL(urls), ttl, 3)
			if lifeAt(t, file) < min(lifeAt(t, urls[0]), lifeAt(t, urls[1])) {
				break
			}
		}
		d := memberDriver(t, file)
		s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
		k, err := s.Join(t.Context(), driver.Request{ID: newID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1})
		if err != nil || !k.Held {
			t.Fatalf("Join: %+v, %v", k, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { // as if it were stopped: nothing ends it
			for ctx.Err() == nil {
				if _, err := s.Renew(ctx, []driver.Ticket{k}); err != nil && !errors.Is(err, context.Canceled) {
					done <- err
					return
				}
				time.Sleep(ttl / 4)
			}
			done <- nil
		}()
		acquires(t, openQuorum(t, urls, ttl), false, 10*ttl)
		cancel()
		errtest.Is(t, <-done, nil)
	})
}

// Promise: the doctor names the member whose clock differs from that of the others.
func TestTheDoctorComparesTheClocksOfTheMembers(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	all, urls, _ := startTimed(t, 3, ttl)
	c := openQuorum(t, urls, ttl)
	clocks := func() interlock.Finding {
		t.Helper()
		for _, f := range c.Admin().Check(t.Context()) {
			if f.Check == "clocks" {
				return f
			}
		}
		t.Fatal("no finding about clocks")
		return interlock.Finding{}
	}
	if f := clocks(); f.Status != "ok" {
		t.Errorf("clocks that agree: %+v", f)
	}
	all[1].server.StepClock(time.Minute)
	if f := clocks(); f.Status != "warn" || !strings.Contains(f.Detail, "the clock of "+urls[1]) {
		t.Errorf("a clock that is ahead: %+v", f)
	}
}

// Promise: a lease that is lost since too few members have renewed it names those that have not.
func TestALostLeaseNamesTheMembersThatHaveNotRenewedIt(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	servers, urls := startRedis(t, 3)
	awaitMembers(t, quorumURL(urls), ttl, 3)
	servers[2].proxy.Refuse(true)
	servers[2].proxy.Cut()
	l := acquires(t, openQuorum(t, urls, ttl), true, time.Minute)
	blocker := memberDriver(t, "redis://"+servers[2].server.Addr) // so that the lease does not join there
	s := errtest.Must(blocker.Open(t.Context(), driver.SessionOptions{TTL: time.Minute}))(t)
	if _, err := s.Join(t.Context(), driver.Request{ID: newID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1, Hold: time.Minute}); err != nil {
		t.Fatal(err)
	}
	servers[2].proxy.Refuse(false)
	servers[1].proxy.Hang()
	select {
	case <-l.Done():
	case <-time.After(time.Minute):
		t.Fatal("the lease is not lost")
	}
	if text := l.Err().Error(); !strings.Contains(text, urls[1]) || strings.Contains(text, urls[0]) {
		t.Errorf("it does not name %s alone: %v", urls[1], text)
	} else {
		t.Log(text)
	}
}
