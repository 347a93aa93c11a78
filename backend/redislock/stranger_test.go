package redislock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: a lock that another library has taken by SET NX PX is respected, and
// waited for by one waiter at most, who asks now and then.
func TestALockOfAnotherLibraryIsRespected(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open := opener(t, s.URL(), interlock.TTL(10*time.Second))
	a, b := open(), open()
	for _, lock := range []struct {
		name string
		get  func(*interlock.Client) *interlock.Lock
	}{
		{"a", func(c *interlock.Client) *interlock.Lock { return c.Mutex("a", interlock.StrictOrder()) }},
		{"b", func(c *interlock.Client) *interlock.Lock { return c.RWMutex("b", interlock.StrictOrder()).Writer() }},
		{"c", func(c *interlock.Client) *interlock.Lock { return c.RWMutex("c", interlock.StrictOrder()).Reader() }},
	} {
		do(t, s, "SET", lock.name, "of another library", "NX", "PX", "60000")
		if _, err := lock.get(a).TryAcquire(t.Context()); !errors.Is(err, interlock.ErrBusy) {
			t.Fatalf("TryAcquire of %q, which another library has: %v", lock.name, err)
		}
		got := make(chan error, 20)
		for i := range cap(got) {
			c := []*interlock.Client{a, b}[i%2]
			go func() {
				l, err := lock.get(c).Acquire(t.Context())
				if err == nil {
					err = l.Release()
				}
				got <- err
			}()
		}
		waiting(t, a, lock.name, cap(got))

		// One of them asks, at most every 2 ms, less often after a while.
		before, began := a.Admin().Exchanges()+b.Admin().Exchanges(), time.Now()
		time.Sleep(time.Second)
		used, most := a.Admin().Exchanges()+b.Admin().Exchanges()-before, uint64(time.Since(began)/(20*time.Millisecond))
		if used == 0 || used > most {
			t.Errorf("%d waiters for another library's lock took %d exchanges in %v", cap(got), used, time.Since(began))
		}
		select {
		case err := <-got:
			t.Fatalf("%q was acquired beside another library: %v", lock.name, err)
		default:
		}
		do(t, s, "DEL", lock.name)
		for range cap(got) {
			noError(t, errtest.Received(t, "an Acquire of what the other library has given back", got))
		}
	}
}

// Promise: while a lock is held, SET NX of another library fails, in each form that
// the lock can have, and succeeds afterwards.
func TestAnotherLibraryRespectsALock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open := opener(t, s.URL(), interlock.TTL(10*time.Second))
	a, b := open(), open()
	taken := func(name, when string, want bool) {
		t.Helper()
		got := do(t, s, "SET", name, "of another library", "NX", "PX", "60000") == nil
		if got != want {
			t.Errorf("SET NX of %q, %s: taken %v", name, when, got)
		}
		if !got {
			do(t, s, "DEL", name)
		}
	}
	for name, get := range map[string]func(*interlock.Client) *interlock.Lock{
		"mutex": func(c *interlock.Client) *interlock.Lock { return c.Mutex("mutex", interlock.StrictOrder()) },
		"writer": func(c *interlock.Client) *interlock.Lock {
			return c.RWMutex("writer", interlock.StrictOrder()).Writer()
		},
		"reader": func(c *interlock.Client) *interlock.Lock {
			return c.RWMutex("reader", interlock.StrictOrder()).Reader()
		},
	} {
		l := acquire(t, get(a))
		taken(name, "held alone", true)
		next := make(chan *interlock.Lease, 1)
		writer := func() *interlock.Lock { // waits behind any of them
			if name == "mutex" {
				return b.Mutex(name, interlock.StrictOrder())
			}
			return b.RWMutex(name, interlock.StrictOrder()).Writer()
		}
		go func() { next <- acquire(t, writer()) }()
		waiting(t, a, name, 1)
		taken(name, "held, with one who waits", true)
		release(t, l)
		if l = errtest.Received(t, "the next holder", next); l == nil {
			t.FailNow()
		}
		taken(name, "handed over", true)
		release(t, l)
		taken(name, "released", false)
		release(t, acquire(t, get(a)))
	}
}

// Promise: Redisson's lock, a hash under the name, is that of another library, and is waited for.
// The other way round Redisson, which asks HEXISTS, gets an error while the lock is held here.
func TestALockOfRedisson(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := opener(t, s.URL(), interlock.TTL(10*time.Second))()
	do(t, s, "HSET", "m", "00112233:1", "1")
	do(t, s, "PEXPIRE", "m", "60000")
	lock := c.Mutex("m", interlock.StrictOrder())
	if _, err := lock.TryAcquire(t.Context()); !errors.Is(err, interlock.ErrBusy) {
		t.Fatalf("TryAcquire of what Redisson holds: %v", err)
	}
	got := make(chan *interlock.Lease, 1)
	go func() { got <- acquire(t, lock) }()
	waiting(t, c, "m", 1)
	if n := do(t, s, "HLEN", "m"); n != int64(1) {
		t.Errorf("of Redisson's lock %v fields are left", n)
	}
	do(t, s, "DEL", "m")
	lease := errtest.Received(t, "an Acquire of what Redisson has given back", got)
	if lease == nil {
		t.FailNow()
	}
	if _, err := s.Do("HEXISTS", "m", "00112233:1"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("Redisson asks for what is held here: %v", err)
	}
	release(t, lease)
	if n := do(t, s, "HEXISTS", "m", "00112233:1"); n != int64(0) {
		t.Errorf("Redisson asks for what is free: %v", n)
	}
}

// Promise: the name of a lock, behind the prefix of the URL, is the server's key.
func TestTheNameOfALockIsTheKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := opener(t, s.URL()+"?prefix=app/")()
	l := acquire(t, c.Mutex("nightly"))
	if got := do(t, s, "EXISTS", "app/nightly"); got != int64(1) {
		t.Errorf("a lock that is held has no key of its name; there are %q", s.Keys())
	}
	release(t, l)
	if got := do(t, s, "EXISTS", "app/nightly"); got != int64(0) {
		t.Error("the key of a lock stays after its release")
	}
}

// Promise: a lock stays closed to other libraries for as long as its holder renews it,
// also while others wait for it, and whatever units it has.
func TestAnotherLibraryRespectsALockThatIsRenewed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	const ttl = time.Minute
	_, a := session(t, s.URL(), ttl)
	_, b := session(t, s.URL(), ttl)
	for name, first := range map[string]driver.Request{
		"alone":  exclusive("alone"),
		"queued": exclusive("queued"),
		"reader": request("reader", 1, driver.RWCapacity),
		"writer": request("writer", driver.RWCapacity, driver.RWCapacity),
	} {
		t.Run(name, func(t *testing.T) {
			held := joined(t, a, first, true)
			var line []driver.Ticket
			if name != "alone" {
				w := joined(t, b, request(name, first.Capacity, first.Capacity), false)
				line = append(line, w)
			}
			const step = ttl * 2 / 5
			for i := range 10 { // four TTLs
				s.StepClock(step)
				for _, when := range []string{"before", "after"} {
					if when == "after" {
						renew(t, a, held)
						renew(t, b, line...)
					}
					if do(t, s, "SET", name, "of another library", "NX", "PX", "60000") != nil {
						t.Fatalf("taken by another library after %v, %s a renewal, although it is held", time.Duration(i+1)*step, when)
					}
				}
			}
		})
	}
}

// Promise: a lock of another library stays when a lock is given back whose own key is
// gone, since somebody has deleted it.
func TestALeaveKeepsTheKeyOfAnotherLibrary(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), time.Minute)
	for name, r := range map[string]driver.Request{
		"alone":  exclusive("alone"),
		"reader": request("reader", 1, driver.RWCapacity),
	} {
		held := joined(t, a, r, true)
		do(t, s, "SET", name, "of another library", "PX", "60000")
		if err := a.Leave(t.Context(), held, true); err != nil {
			t.Logf("Leave of %q: %v", name, err)
		}
		if got := do(t, s, "GET", name); got != "of another library" {
			t.Errorf("the other library's lock of %q is %v", name, got)
		}
	}
}

// Promise: whoever becomes the first in line looks for what nobody tells: that another library has given its lock back.
func TestWhoBecomesTheFirstInLineLooks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 5 * time.Minute // no heartbeat comes
	_, a := session(t, s.URL(), ttl)
	_, b := session(t, s.URL(), ttl)
	do(t, s, "SET", "x", "stranger")
	x := &demand{t: t}
	first, second := x.join(a, exclusive("x")), x.join(b, exclusive("x"))
	if left := do(t, s, "PTTL", "interlock:{x}:w"); left == int64(-1) {
		t.Errorf("the key of those who wait stays for ever")
	}
	x.leave(a, first, true)
	do(t, s, "DEL", "x")
	if _, err := b.Await(x.soon(), second); err != nil {
		t.Errorf("free for long, and the only one who waits still does: %v", err)
	}
}
