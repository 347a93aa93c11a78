package interlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// under acquires a lock, and returns a context that carries it until the test ends.
func under(t testing.TB, ctx context.Context, l *interlock.Lock) (context.Context, *interlock.Lease) {
	t.Helper()
	lease := errtest.Must(l.Acquire(ctx))(t)
	held, free := lease.Bind(ctx)
	t.Cleanup(func() { free(); _ = lease.Release() })
	return held, lease
}

// untilEnd is a context without a deadline that ends before what was begun before is cleaned up.
func untilEnd(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}

// told is long enough for others to know of a wait.
const told = 2 * time.Second

func deadlocks(t testing.TB, clients ...member) []interlock.Deadlock {
	t.Helper()
	var all []*interlock.Client
	for _, c := range clients {
		all = append(all, c.Client)
	}
	return errtest.Must(interlock.Deadlocks(ctx, all...))(t)
}

// names are the locks of the deadlocks: "a b, c d".
func names(found []interlock.Deadlock) string {
	var all []string
	for _, d := range found {
		var one []string
		for _, w := range d.Waits {
			one = append(one, w.Name)
		}
		slices.Sort(one)
		all = append(all, strings.Join(one, " "))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func noDeadlock(t testing.TB, why string, clients ...member) {
	t.Helper()
	found := deadlocks(t, clients...)
	failIf(t, len(found) > 0, "%s: %v", why, found)
}

// A cycle over three locks of two backends is found with the clients of both, by anybody, with all that
// helps to find those who are in it.
func TestADeadlockOverTwoBackendsIsNamed(t *testing.T) {
	simulated(t, func(t *testing.T) {
		one, two := memlock.NewWorld(), memlock.NewWorld()
		looker, other := join(t, one, interlock.Prefix("p/")), join(t, two)
		begun := time.Now()
		var on1, on2 [3]member
		for i := range on1 {
			on1[i], on2[i] = join(t, one, interlock.Owner(fmt.Sprint("owner ", i))), join(t, two, interlock.Owner(fmt.Sprint("owner ", i)))
		}
		ctx, cancel := untilEnd(t)
		note := interlock.Note
		ctx0, a := under(t, ctx, on1[0].Mutex("p/a", note("has a")))
		ctx1, b := under(t, ctx, on2[1].Mutex("b", note("has b")))
		ctx2, c := under(t, ctx, on1[2].Mutex("p/c", note("has c")))
		leases := []*interlock.Lease{a, b, c}
		waits := []<-chan result{async(ctx0, on2[0].Mutex("b", note("wants b")))}
		time.Sleep(time.Second)
		waits = append(waits, async(ctx1, on1[1].Mutex("p/c", note("wants c"))))
		time.Sleep(told)
		noDeadlock(t, "before the cycle is closed", looker, other)
		waits = append(waits, async(ctx2, on1[2].Mutex("p/a", note("wants a"))))
		time.Sleep(told)

		for _, clients := range [][]member{{looker, other}, {other, looker, on1[0]}} {
			found := deadlocks(t, clients...)
			fatalIf(t, len(found) != 1 || len(found[0].Waits) != 3, "%v", found)
			for i, w := range found[0].Waits {
				backend, name := looker, string("bca"[i])
				if i == 0 {
					backend = other
				}
				by := leases[(i+1)%3]
				if w.Client != backend.Client || w.Name != name || w.Kind != "mutex" || w.Units != 1 ||
					w.Owner != fmt.Sprint("owner ", i) || w.Note != "wants "+name ||
					w.By.Owner != fmt.Sprint("owner ", (i+1)%3) || w.By.Note != "has "+name || w.By.Token != by.Token() || !strings.HasPrefix(by.ID(), w.By.ID) {
					t.Errorf("wait %d is %+v", i, w)
				}
			}
			since := found[0].Waits[0].Since
			failIf(t, since.Sub(begun).Abs() > time.Second, "since %v, not %v", since, begun)
			const text = `owner 0 waits for b, which is held by owner 1; owner 1 waits for c, which is held by owner 2; owner 2 waits for a, which is held by owner 0`
			equal(t, found[0].String(), text, "it says")
		}
		noDeadlock(t, "half of the cycle", looker)
		noDeadlock(t, "the other half", other)
		noDeadlock(t, "nothing")

		cancel()
		for _, w := range waits {
			wantErr(t, (<-w).err, context.Canceled)
		}
		noDeadlock(t, "after the end", looker, other)
	})
}

// scene is what a row of a table has: clients of one backend, and one of another.
type scene struct {
	t    *testing.T
	ctx  context.Context
	a, b member
	c    member // of the other
}

func newScene(t *testing.T, w *memlock.World) scene {
	s := scene{t: t, a: join(t, w), b: join(t, w), c: join(t, memlock.NewWorld())}
	s.ctx, _ = untilEnd(t)
	return s
}

// holds is a context that holds locks.
func (s scene) holds(locks ...*interlock.Lock) context.Context {
	ctx := s.ctx
	for _, l := range locks {
		ctx, _ = under(s.t, ctx, l)
	}
	return ctx
}

// cross has a holder of each of two locks wait for something.
func (s scene) cross(a, b, wantsB, wantsA *interlock.Lock) {
	s.wait(s.holds(a), wantsB, s.holds(b), wantsA)
}

// wait has contexts wait for locks, one after the other.
func (s scene) wait(ctxA context.Context, wantsB *interlock.Lock, ctxB context.Context, wantsA *interlock.Lock) {
	async(ctxA, wantsB)
	async(ctxB, wantsA)
}

// What never ends by itself is found, whatever the kinds of the locks.
func TestDeadlocksOfEachKindAreFound(t *testing.T) {
	for name, one := range map[string]struct {
		begin func(s scene)
		want  string
	}{
		"two mutexes": {func(s scene) {
			s.cross(s.a.Mutex("a"), s.b.Mutex("b"), s.a.Mutex("b"), s.b.Mutex("a"))
		}, "a b"},
		"goroutines of one process": {func(s scene) {
			s.cross(s.a.Mutex("a"), s.a.Mutex("b"), s.a.Mutex("b"), s.a.Mutex("a"))
		}, "a b"},
		"a lock that was held before the last": {func(s scene) {
			s.wait(s.holds(s.a.Mutex("a"), s.a.Mutex("last")), s.a.Mutex("b"), s.holds(s.b.Mutex("b")), s.b.Mutex("a"))
		}, "a b"},
		"itself, by another client": {func(s scene) {
			async(s.holds(s.a.Mutex("a")), s.b.Mutex("a"))
		}, "a"},
		"a part of All": {func(s scene) {
			s.wait(s.ctx, interlock.All(s.a.Mutex("a"), s.a.Mutex("b")), s.holds(s.b.Mutex("b")), s.b.Mutex("a"))
		}, "a b"},
		"a part of All that was waited for": {func(s scene) {
			b := s.holds(s.b.Mutex("b"))
			first := acquire(s.t, s.b.Mutex("a"))
			async(s.ctx, interlock.All(s.a.Mutex("a"), s.a.Mutex("b")))
			ok(s.t, first.Release())
			time.Sleep(time.Millisecond)
			async(b, s.b.Mutex("a"))
		}, "a b"},
		"a part of All that a nested All waits for": {func(s scene) {
			s.cross(interlock.All(s.a.Mutex("a"), s.c.Mutex("c")), s.b.Mutex("b"), s.a.Mutex("b"), interlock.All(s.b.Mutex("d"), s.c.Mutex("c")))
		}, "b c"},
		"a writer behind one of two readers": {func(s scene) {
			s.holds(s.b.RWMutex("rw").Reader())
			s.cross(s.a.RWMutex("rw").Reader(), s.b.Mutex("b"), s.a.Mutex("b"), s.b.RWMutex("rw").Writer())
		}, "b rw"},
		"a reader behind a writer": {func(s scene) {
			s.cross(s.a.RWMutex("rw").Writer(), s.b.Mutex("b"), s.a.Mutex("b"), s.b.RWMutex("rw").Reader())
		}, "b rw"},
		"a reader behind a writer that waits for a reader": {func(s scene) {
			r, b := s.holds(s.a.RWMutex("rw").Reader()), s.holds(s.b.Mutex("b"))
			async(s.holds(s.b.Mutex("w")), s.b.RWMutex("rw").Writer())
			s.wait(r, s.a.Mutex("b"), b, s.b.RWMutex("rw", interlock.StrictOrder()).Reader())
		}, "b rw rw"},
		"a semaphore, all of whose permits are of the cycle": {func(s scene) {
			q := s.holds(s.b.Semaphore("s", 2))
			s.cross(s.a.Semaphore("s", 2), s.b.Mutex("m"), s.a.Mutex("m"), s.b.Semaphore("s", 2))
			async(q, s.b.Mutex("m"))
		}, "m s"},
		"permits that are not enough": {func(s scene) {
			s.holds(s.b.Semaphore("s", 5, interlock.Weight(2)))
			s.cross(s.a.Semaphore("s", 5, interlock.Weight(2)), s.b.Mutex("m"), s.a.Mutex("m"), s.b.Semaphore("s", 5, interlock.Weight(4)))
		}, "m s"},
		"an election": {func(s scene) {
			s.cross(s.a.Election("e").Candidate("x"), s.b.Mutex("m"), s.a.Mutex("m"), s.b.Election("e").Candidate("y"))
		}, "e m"},
		"two deadlocks": {func(s scene) {
			for _, x := range []string{"1", "2"} {
				b := s.holds(s.b.Mutex("b" + x))
				s.wait(s.holds(s.a.Mutex("a"+x)), s.a.Mutex("b"+x), b, s.b.Mutex("a"+x))
				async(b, s.b.Mutex("a"+x)) // beside it
			}
		}, "a1 b1, a2 b2"},
		"many who wait behind it": {func(s scene) {
			s.cross(s.a.Mutex("a"), s.b.Mutex("b"), s.a.Mutex("b"), s.b.Mutex("a"))
			for i := range 20 {
				async(s.holds(s.a.Mutex(fmt.Sprint("x", i))), s.a.Mutex("a"))
			}
		}, "a b"},
	} {
		simulatedAs(t, name, func(t *testing.T) {
			s := newScene(t, memlock.NewWorld())
			one.begin(s)
			time.Sleep(told)
			found := deadlocks(t, s.a, s.c)
			equal(t, names(found), one.want, "found in %v", found)
		})
	}
}

// What may end by itself is no deadlock. Each of these would be one but for the reason that its name says.
func TestNoFalseAlarm(t *testing.T) {
	later := interlock.Wait(time.Hour)
	for name, begin := range map[string]func(s scene){
		"a wait that is bounded": func(s scene) {
			s.cross(s.a.Mutex("a"), s.b.Mutex("b"), s.a.Mutex("b"), s.b.Mutex("a", later))
		},
		"a wait of All that is bounded": func(s scene) {
			s.cross(s.a.Mutex("a"), s.b.Mutex("b"), s.a.Mutex("b"), interlock.All(s.b.Mutex("a"), s.b.Mutex("c")).With(later))
		},
		"a context that has a deadline": func(s scene) {
			late, cancel := context.WithTimeout(s.holds(s.b.Mutex("b")), time.Hour)
			s.t.Cleanup(cancel)
			s.wait(s.holds(s.a.Mutex("a")), s.a.Mutex("b"), late, s.b.Mutex("a"))
		},
		"a lease that ends by itself": func(s scene) {
			s.cross(s.a.Mutex("a"), s.b.Mutex("b", interlock.ExpiresAfter(time.Hour)), s.a.Mutex("b"), s.b.Mutex("a"))
		},
		"a context that ends with a lease": func(s scene) {
			a := s.holds(s.a.Mutex("fixed", interlock.ExpiresAfter(time.Hour)), s.a.Mutex("a"))
			s.wait(a, s.a.Mutex("b"), s.holds(s.b.Mutex("b")), s.b.Mutex("a"))
		},
		"a part of All that ends by itself": func(s scene) {
			all := interlock.All(s.a.Mutex("a"), s.a.Mutex("a2", interlock.ExpiresAfter(time.Hour)), s.a.Mutex("b"))
			s.wait(s.ctx, all, s.holds(s.b.Mutex("b")), s.b.Mutex("a"))
		},
		"a lease that another goroutine has": func(s scene) {
			s.holds(s.b.Mutex("b"))
			s.wait(s.holds(s.a.Mutex("a")), s.a.Mutex("b"), s.ctx, s.b.Mutex("a"))
		},
		"a context that was detached": func(s scene) {
			s.wait(s.holds(s.a.Mutex("a")), s.a.Mutex("b"), interlock.Detach(s.holds(s.b.Mutex("b"))), s.b.Mutex("a"))
		},
		"a wait that was cancelled": func(s scene) {
			wait, cancel := context.WithCancel(s.holds(s.b.Mutex("b")))
			s.wait(s.holds(s.a.Mutex("a")), s.a.Mutex("b"), wait, s.b.Mutex("a"))
			time.Sleep(told)
			cancel()
		},
		"a lease that was evicted": func(s scene) {
			a := context.WithoutCancel(s.holds(s.a.Mutex("a")))
			s.wait(a, s.a.Mutex("b"), s.holds(s.b.Mutex("b")), s.b.Mutex("a"))
			time.Sleep(told)
			evict(s.t, s.b, "a", false)
		},
		"a lease that was released, though its context waits on": func(s scene) {
			first, lease := under(s.t, s.ctx, s.a.Mutex("a"))
			b := s.holds(s.b.Mutex("b"))
			second := async(s.ctx, s.a.Mutex("a")) // gets the ticket of the first
			s.wait(context.WithoutCancel(first), s.a.Mutex("b"), b, s.b.Mutex("a"))
			time.Sleep(20 * time.Millisecond)
			ok(s.t, lease.Release())
			r := served(s.t, second)
			s.t.Cleanup(func() { _ = r.lease.Release() })
		},
		"the same, when the wait is known to others": func(s scene) {
			first, lease := under(s.t, s.ctx, s.a.RWMutex("a").Reader())
			s.holds(s.a.RWMutex("a").Reader()) // shares the ticket
			s.wait(context.WithoutCancel(first), s.a.Mutex("b"), s.holds(s.b.Mutex("b")), s.b.RWMutex("a").Writer())
			time.Sleep(told)
			ok(s.t, lease.Release())
		},
		"the same, when the one that waits holds more": func(s scene) {
			first, lease := under(s.t, s.ctx, s.a.RWMutex("a").Reader())
			s.holds(s.a.RWMutex("a").Reader()) // shares the ticket
			first, _ = under(s.t, first, s.a.Mutex("more"))
			s.wait(context.WithoutCancel(first), s.a.Mutex("b"), s.holds(s.b.Mutex("b")), s.b.RWMutex("a").Writer())
			time.Sleep(told)
			ok(s.t, lease.Release())
		},
		"a permit that somebody has who waits for nothing": func(s scene) {
			s.holds(s.b.Semaphore("s", 2))
			s.cross(s.a.Semaphore("s", 2), s.b.Mutex("b"), s.a.Mutex("b"), s.b.Semaphore("s", 2))
		},
		"a heavy wait in front, which is bounded": func(s scene) {
			r := s.holds(s.a.RWMutex("rw").Reader())
			async(s.ctx, s.b.RWMutex("rw", later).Writer())
			s.wait(r, s.a.Mutex("b"), s.holds(s.b.Mutex("b")), s.b.RWMutex("rw", interlock.StrictOrder()).Reader())
		},
		"a lease that AtLeast keeps": func(s scene) {
			lease := acquire(s.t, s.a.Mutex("a", interlock.AtLeast(time.Hour)))
			held, free := lease.Bind(s.ctx)
			s.wait(context.WithoutCancel(held), s.a.Mutex("b"), s.holds(s.b.Mutex("b")), s.b.Mutex("a"))
			time.Sleep(told)
			free()
			ok(s.t, lease.Release())
		},
		"a client that is cut off": func(s scene) {
			s.cross(s.a.Mutex("a"), s.b.Mutex("b"), s.a.Mutex("b"), s.b.Mutex("a"))
			time.Sleep(told)
			s.b.faults().Cut() // its tickets stand for some seconds
		},
		"others only wait behind": func(s scene) {
			s.holds(s.b.Mutex("b"))
			s.cross(s.a.Mutex("a"), s.a.Mutex("c"), s.a.Mutex("b"), s.a.Mutex("a"))
		},
		"what others have written": func(s scene) {
			acquire(s.t, s.a.Mutex("a"))
			async(s.holds(s.a.Mutex("x")), s.b.Mutex("a"))
			time.Sleep(told)
			o := errtest.Must(s.a.d.Open(ctx, driver.SessionOptions{TTL: time.Hour}))(s.t)
			s.t.Cleanup(func() { _ = o.Close(ctx) })
			for q, err := range s.a.d.Queues(ctx, "~waiting/") {
				ok(s.t, err)
				for i, note := range []string{"x", "{}", `{"id":"0123456789abcdef0123456789abcdef","queue":"a","units":0}`, `{"id":"x","queue":"a","units":1}`, `{"id":"0123456789abcdef0123456789abcdef","queue":"b","units":1}`} {
					r := driver.Request{ID: fmt.Sprintf("%032x", i), Queue: q.Name, Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity, Note: []byte(note)}
					errtest.Must(o.Join(ctx, r))(s.t)
				}
			}
		},
	} {
		simulatedAs(t, name, func(t *testing.T) {
			w := memlock.NewWorld()
			s, looker := newScene(t, w), join(t, w)
			begin(s)
			for range 3 {
				noDeadlock(t, name, looker)
				time.Sleep(told)
			}
		})
	}
}

// Promise: a wait is seen as long as it holds anything, and with each of its leases until that ends.
func TestAWaitIsSeenWithEachLeaseUntilThatEnds(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b, looker := trio(t)
		ctx, _ := untilEnd(t)
		rw := a.RWMutex("rw", interlock.Reentrant())
		holder, first := under(t, ctx, a.Mutex("m"))
		holder, second := under(t, holder, rw.Reader())
		holder, nested := under(t, holder, rw.Reader())
		free, _ := under(t, ctx, b.Mutex("b"))
		async(context.WithoutCancel(holder), a.Mutex("b"))
		time.Sleep(told)
		closing := func(l *interlock.Lock, want, why string) {
			t.Helper()
			waits, cancel := context.WithCancel(free)
			c := async(waits, l)
			time.Sleep(told)
			equal(t, names(deadlocks(t, looker)), want, "%s: found", why)
			cancel()
			<-c
		}
		closing(b.Mutex("m"), "b m", "the first lease")
		closing(b.RWMutex("rw").Writer(), "b rw", "the second lease")
		ok(t, first.Release())
		closing(b.RWMutex("rw").Writer(), "b rw", "the second lease, when the first has ended")
		acquire(t, a.Mutex("m"))
		closing(b.Mutex("m"), "", "the first lease, which has ended")
		ok(t, nested.Release())
		closing(b.RWMutex("rw").Writer(), "b rw", "the second lease, when one that was nested has ended")
		acquire(t, a.RWMutex("rw").Reader()) // shares the ticket
		ok(t, second.Release())
		closing(b.RWMutex("rw").Writer(), "", "the second lease, which has ended")
	})
}

// Promise: a lock is named as a client can name it, of several clients of one backend by one that can, and as a whole
// if none can.
func TestALockOutsideOfThePrefixHasItsWholeName(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		p, q := join(t, w, interlock.Prefix("p/")), join(t, w, interlock.Prefix("q/"))
		all, none, same := join(t, w), join(t, w, interlock.Prefix("r/")), join(t, w, interlock.Prefix("p/a"))
		ctx, _ := untilEnd(t)
		a, _ := under(t, ctx, p.Mutex("a"))
		b, _ := under(t, ctx, q.Mutex("b"))
		async(a, q.Mutex("b"))
		time.Sleep(told) // it is the first of the cycle
		async(b, p.Mutex("a"))
		time.Sleep(told)
		for _, c := range []struct {
			why     string
			clients []member
			of      [2]member
			names   [2]string
			outside [2]bool
		}{
			{"one prefix", []member{p}, [2]member{p, p}, [2]string{"q/b", "a"}, [2]bool{true, false}},
			{"the other prefix", []member{q}, [2]member{q, q}, [2]string{"b", "p/a"}, [2]bool{false, true}},
			{"both", []member{p, q}, [2]member{q, p}, [2]string{"b", "a"}, [2]bool{}},
			{"both, the other way round", []member{q, p}, [2]member{q, p}, [2]string{"b", "a"}, [2]bool{}},
			{"the first of those that can", []member{none, all, p, q}, [2]member{all, all}, [2]string{"q/b", "p/a"}, [2]bool{}},
			{"none that can", []member{none, none}, [2]member{none, none}, [2]string{"q/b", "p/a"}, [2]bool{true, true}},
			{"a prefix that is the name", []member{same}, [2]member{same, same}, [2]string{"q/b", "p/a"}, [2]bool{true, true}},
		} {
			found := deadlocks(t, c.clients...)
			fatalIf(t, len(found) != 1 || len(found[0].Waits) != 2, "%s: found %v", c.why, found)
			for i, w := range found[0].Waits {
				equal(t, w.Client, c.of[i].Client, "%s: the client of wait %d", c.why, i)
				failIf(t, w.Name != c.names[i] || w.Outside != c.outside[i], "%s: %q, outside: %v", c.why, w.Name, w.Outside)
			}
		}
	})
}

// A wait is over when its caller knows that. A record that was on its way since before proves nothing.
func TestAnAnswerThatWasOnItsWayProvesNothing(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b, looker := trio(t)
		ctx, _ := untilEnd(t)
		ctxA, _ := under(t, ctx, a.Mutex("a"))
		ctxB, _ := under(t, ctx, b.Mutex("b"))
		waitA, cancel := context.WithCancel(ctxA)
		defer cancel()
		async(waitA, a.Mutex("b"))
		time.Sleep(told)
		for q, err := range looker.d.Queues(ctx, "~waiting/") { // somebody has asked
			ok(t, err)
			answer, leave := a.faults().Before("Join", 1).Stick(), a.faults().Before("Leave", 0).Stick()
			defer answer.Deliver()
			defer leave.Deliver()
			ok(t, looker.d.Ask(ctx, q.Name, q.Members[0].ID, driver.Revoke))
			<-answer.Reached()
			cancel()
			async(ctxB, b.Mutex("a")) // now there would be a cycle
			time.Sleep(told)
			found := make(chan []interlock.Deadlock)
			go func() { found <- deadlocks(t, looker) }()
			time.Sleep(100 * time.Millisecond)
			answer.Deliver()
			f := <-found
			failIf(t, len(f) > 0, "found %v", f)
		}
	})
}

// hooked calls before, before it reads a queue.
type hooked struct {
	*memlock.Driver
	before func(queue, after string)
}

func (d hooked) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	d.before(queue, after)
	return d.Driver.Follow(ctx, queue, after)
}

// What stood when the suspicion arose, and stands no more when all have answered, is no deadlock.
func TestWhatHasGoneMeanwhileIsNoDeadlock(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w), join(t, w)
		ctx, _ := untilEnd(t)
		ctxA, lease := under(t, ctx, a.Mutex("a"))
		ctxB, _ := under(t, ctx, b.Mutex("b"))
		async(ctxA, a.Mutex("b"))
		async(ctxB, b.Mutex("a"))
		time.Sleep(told)
		looks := 0
		looker := client(t, hooked{w.Driver(), func(queue, _ string) {
			if queue != "a" {
				return
			}
			if looks++; looks == 2 {
				ok(t, b.Admin().Evict(ctx, "a", lease.ID(), true))
			}
		}})
		found := errtest.Must(interlock.Deadlocks(ctx, looker))(t)
		failIf(t, len(found) > 0 || looks != 2, "found %v after %d looks", found, looks)
	})
}

// The acquire that closed a deadlock fails, no other, and the others go on.
func TestTheYoungestWaitBreaksTheDeadlock(t *testing.T) {
	simulated(t, func(t *testing.T) {
		one, two := memlock.NewWorld(), memlock.NewWorld()
		const n = 4
		var done [n]error
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range n {
			m, other := join(t, one), join(t, two)
			lock := func(i int) *interlock.Lock {
				on, off := m, other
				if i%2 == 1 {
					on, off = off, on
				}
				return on.Mutex(fmt.Sprint(i%n), interlock.BreakDeadlocks(off.Client))
			}
			wg.Go(func() {
				done[i] = lock(i).Do(ctx, func(ctx context.Context) error {
					time.Sleep(time.Duration(n+(i+2)%n) * time.Millisecond) // 1 is the last who begins to wait
					return lock(i+1).Do(ctx, func(context.Context) error { return nil })
				})
			})
		}
		wg.Wait()
		within(t, begun, 2*ttl, "it took")
		for i, err := range done {
			if i == 1 {
				wantErr(t, err, interlock.ErrDeadlock)
				text := err.Error()
				failIf(t, !strings.HasPrefix(text, "interlock: acquire 2: deadlock: ") || !strings.Contains(text, "waits for 3, which is held by"), "%v", text)
				continue
			}
			ok(t, err)
		}
	})
}

// Promise: if the youngest wait cannot see the deadlock with the clients that it was given, an older one breaks it.
func TestADeadlockThatTheYoungestCannotSeeIsBroken(t *testing.T) {
	simulated(t, func(t *testing.T) {
		one, two := memlock.NewWorld(), memlock.NewWorld()
		a1, a2, b1, b2 := join(t, one), join(t, two), join(t, one), join(t, two)
		ctx, _ := untilEnd(t)
		x, _ := under(t, ctx, a1.Mutex("x"))
		y, _ := under(t, ctx, b2.Mutex("y"))
		first := async(x, a2.Mutex("y", interlock.BreakDeadlocks(a1.Client)))
		time.Sleep(time.Second)
		second := async(y, b1.Mutex("x", interlock.BreakDeadlocks()))
		fails(t, first, 20)
		r, ended := got(second)
		failIf(t, ended, "the other one has ended, too: %v", r.err)
	})
}

// closesCycle has a hold x and wait for y, and then b, which holds y, wait for x.
func closesCycle(t *testing.T, ctx context.Context, a, b member, opts ...interlock.Option) (ofX *interlock.Lease, wait <-chan result) {
	t.Helper()
	x, ofX := under(t, ctx, a.Mutex("x"))
	y, _ := under(t, ctx, b.Mutex("y"))
	async(x, a.Mutex("y"))
	time.Sleep(time.Second)
	return ofX, async(y, b.Mutex("x", opts...))
}

// Promise: when a wait has failed to break a deadlock, it stands in no line any more.
func TestAWaitThatBreaksADeadlockLeavesNothing(t *testing.T) {
	for _, opts := range [][]interlock.Option{{interlock.BreakDeadlocks()}, {interlock.BreakDeadlocks(), interlock.StrictOrder()}} {
		simulated(t, func(t *testing.T) {
			a, b := pair(t)
			ctx, _ := untilEnd(t)
			_, c := closesCycle(t, ctx, a, b, opts...)
			leave := b.faults().Before("Leave", 1).Hang()
			<-leave.Reached()
			time.AfterFunc(20*time.Millisecond, leave.Deliver)
			fails(t, c, 3)
			q := errtest.Must(a.Admin().Queue(ctx, "x"))(t)
			failIf(t, len(q.Waiters) > 0, "%d wait", len(q.Waiters))
		})
	}
}

// Promise: a wait that fails to break a deadlock passes its place on to the goroutine behind it, as one does whose
// context ends.
func TestThePlaceOfAWaitThatBreaksADeadlockIsPassedOn(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b, c := trio(t)
		ctx, _ := untilEnd(t)
		lease, breaks := closesCycle(t, ctx, a, b, interlock.BreakDeadlocks())
		synctest.Wait()
		behind := async(ctx, b.Mutex("x"))
		last := async(ctx, c.Mutex("x"))
		fails(t, breaks, 3)
		ok(t, lease.Release())
		now(t, behind, "the one behind it was not served")
		notYet(t, last, "the last one was served, too")
	})
}

// Promise: a wait that holds nothing is told to nobody: it costs nothing, whatever it waits for.
func TestAWaitThatHoldsNothingHasNoRecord(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		ctx, _ := untilEnd(t)
		for _, of := range []func(member) *interlock.Lock{
			func(m member) *interlock.Lock { return m.Mutex("m") },
			func(m member) *interlock.Lock { return m.RWMutex("rw").Writer() },
			func(m member) *interlock.Lock { return m.Semaphore("s", 3, interlock.Weight(3)) },
		} {
			acquire(t, of(a))
			async(ctx, of(b))
		}
		time.Sleep(told)
		n := 0
		for q, err := range b.d.Queues(ctx, "") {
			ok(t, err)
			n++
			failIf(t, len(q.Members) != 2, "%s has %d tickets", q.Name, len(q.Members))
		}
		failIf(t, n != 3, "%d queues", n)
	})
}

// fails waits for an acquire that is to fail with ErrDeadlock within some TTLs.
func fails(t *testing.T, c <-chan result, ttls time.Duration) {
	t.Helper()
	select {
	case r := <-c:
		wantErr(t, r.err, interlock.ErrDeadlock)
	case <-time.After(ttls * ttl):
		t.Fatal("nothing breaks the deadlock")
	}
}

// Only a wait with the option fails, also one that waits in a line of its process, or for a part of All.
func TestWhoBreaksDeadlocksIsAskedFor(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		ctx, _ := untilEnd(t)
		breaks := interlock.BreakDeadlocks()
		m, ms := under(t, ctx, a.Mutex("m"))
		n, _ := under(t, ctx, a.Mutex("n"))
		first := async(m, a.Mutex("n", breaks)) // in a line of this process
		time.Sleep(time.Millisecond)
		second := async(n, b.Mutex("m"))
		fails(t, first, 3)
		notYet(t, second, "the wait without the option has ended")
		ok(t, ms.Release())
		ok(t, (<-second).err)

		o, _ := under(t, ctx, b.Mutex("o"))
		all := async(ctx, interlock.All(a.Mutex("i"), a.Mutex("o")).With(breaks))
		time.Sleep(time.Millisecond)
		third := async(o, b.Mutex("i"))
		fails(t, all, 3)
		ok(t, (<-third).err)
	})
}

// A wait that is in no deadlock goes on, however long it lasts, and can be cancelled as any other.
func TestAWaitThatIsInNoDeadlockIsNotBroken(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		ctx, _ := untilEnd(t)
		breaks := interlock.BreakDeadlocks(b.Client)
		x, _ := under(t, ctx, a.Mutex("x"))
		lease := acquire(t, b.Mutex("m"))
		first, second := async(x, a.Mutex("m", breaks)), async(x, b.Mutex("m", breaks))
		cancelled, stop := context.WithCancel(x)
		third := async(cancelled, a.Mutex("m", breaks))
		time.Sleep(10 * ttl)
		stop()
		wantErr(t, (<-third).err, context.Canceled)
		ok(t, lease.Release())
		for range 2 {
			var r result
			select {
			case r = <-first:
			case r = <-second:
			}
			r.release(t)
		}
	})
}

// Programs that take locks in order, or bound their waits, are never alarmed, and a cycle beside them is found.
func TestARandomRunWithoutAFalseAlarm(t *testing.T) {
	simulated(t, func(t *testing.T) {
		worlds := []*memlock.World{memlock.NewWorld(), memlock.NewWorld()}
		lookers := []member{join(t, worlds[0]), join(t, worlds[1])}
		ctx, cancel := untilEnd(t)
		var wg sync.WaitGroup
		const locks = 6
		for range 4 { // processes
			clients := []member{join(t, worlds[0]), join(t, worlds[1])}
			lock := func(i int, r *rand.Rand, opts ...interlock.Option) *interlock.Lock {
				c, name := clients[i%2], fmt.Sprint("lock", i)
				switch {
				case i%3 == 0:
					return c.Semaphore(name, 3, append(opts, interlock.Weight(1+r.Int64N(3)))...)
				case i%3 == 1:
					return c.Mutex(name, opts...)
				case r.IntN(2) == 0:
					return c.RWMutex(name, opts...).Reader()
				}
				return c.RWMutex(name, opts...).Writer()
			}
			for range 4 { // goroutines
				r := rand.New(rand.NewPCG(rand.Uint64(), 1))
				wg.Go(func() {
					for ctx.Err() == nil {
						order := r.Perm(locks)[:1+r.IntN(4)]
						bounded := r.IntN(3) == 0
						if !bounded {
							slices.Sort(order)
						}
						var nest func(ctx context.Context, order []int) error
						nest = func(ctx context.Context, order []int) error {
							if len(order) == 0 || ctx.Err() != nil {
								time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
								return nil
							}
							var opts []interlock.Option
							if bounded {
								opts = append(opts, interlock.Wait(time.Duration(1+r.Int64N(int64(10*time.Second)))))
							}
							return lock(order[0], r, opts...).Do(ctx, func(ctx context.Context) error { return nest(ctx, order[1:]) })
						}
						_ = nest(ctx, order)
					}
				})
			}
		}
		waits := 0
		for round := range 40 {
			time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Second))))
			for q, err := range lookers[0].d.Queues(ctx, "~waiting/") {
				ok(t, err)
				waits += len(q.Members)
			}
			planted := ""
			stop := func() {}
			if round%4 == 3 {
				var bad context.Context
				bad, stop = context.WithCancel(ctx)
				x, xs := under(t, bad, lookers[0].Mutex("x"))
				y, ys := under(t, bad, lookers[1].Mutex("y"))
				first, second := async(x, lookers[1].Mutex("y")), async(y, lookers[0].Mutex("x"))
				time.Sleep(told)
				planted = "x y"
				end := stop
				stop = func() { end(); <-first; <-second; _ = xs.Release(); _ = ys.Release() }
			}
			found := deadlocks(t, lookers...)
			equal(t, names(found), planted, "round %d: found in %v", round, found)
			stop()
		}
		failIf(t, waits == 0, "nobody ever waited long enough to be known")
		cancel()
		wg.Wait()
	})
}
