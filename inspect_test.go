package interlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// One look at one lock is an exchange for the lock, and one for the records of work that overruns.
func TestALockIsLookedAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w, interlock.Prefix("app/")), join(t, w, interlock.Prefix("app/"))
		q, err := b.Admin().Queue(ctx, "m")
		ok(t, err)
		failIf(t, q.Name != "m" || q.Kind != "" || len(q.Holders)+len(q.Waiters) > 0, "nobody holds it: %+v", q)
		acquire(t, join(t, w, interlock.Prefix("other/")).Mutex("m"))
		lease := acquire(t, a.Mutex("m", interlock.Note("why")))
		waits := async(ctx, b.Mutex("m"))
		before := b.Admin().Exchanges()
		q = errtest.Must(b.Admin().Queue(ctx, "m"))(t)
		equal(t, b.Admin().Exchanges()-before, 2, "exchanges")
		if q.Name != "m" || q.Kind != "mutex" || q.Capacity != 1 || len(q.Holders) != 1 || len(q.Waiters) != 1 || q.Holders[0].Token != lease.Token() || q.Holders[0].Note != "why" {
			t.Errorf("%+v", q)
		}
		b.faults().After("Follow", 1).Fail() // it looks again
		errtest.Must(b.Admin().Queue(ctx, "m"))(t)
		for q, err := range b.Admin().Queues(ctx, "") {
			ok(t, err)
			failIf(t, q.Name != "m" || q.Holders[0].Token != lease.Token(), "of another prefix: %+v", q)
		}
		_, err = b.Admin().Queue(ctx, "a//b")
		wantErr(t, err, interlock.ErrInvalid)
		ok(t, lease.Release())
		turn(t, waits)
		nothingLeft(t, a, b)
	})
}

// A raise of all names is one of those with other prefixes, too, and of those that were never used.
func TestRaiseTokensIsForAllNames(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w, interlock.Prefix("app/")), join(t, w)
		held := acquire(t, a.Mutex("held"))
		waits := async(ctx, a.Mutex("held", interlock.StrictOrder()))
		ok(t, acquire(t, b.Mutex("used")).Release())
		token := held.Token()
		floor := token + 1<<40
		ok(t, a.Admin().RaiseTokens(ctx, floor))
		failIf(t, held.Token() != token, "the token of a lease became %d after %d", held.Token(), token)
		ok(t, held.Release())
		waited := now(t, waits, "the waiter is not granted")
		later := []*interlock.Lease{waited.lease, acquire(t, b.Mutex("used")), acquire(t, a.Mutex("never"))}
		for _, l := range later {
			failIf(t, l.Token() <= floor, "a token is %d, the floor %d", l.Token(), floor)
			ok(t, l.Release())
		}
	})
}

// The context ends while a change waits for a reader that is still busy with the one before.
func TestFollowEndsWithItsContextWhateverIsUnderWay(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		following, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var lease *interlock.Lease
			for _, err := range b.Admin().Follow(following, "m") {
				switch {
				case err != nil:
					t.Error(err)
				case lease == nil:
					lease = acquire(t, a.Mutex("m"))
				case following.Err() == nil:
					ok(t, lease.Release())
					synctest.Wait()
					cancel()
					synctest.Wait()
				}
			}
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("it goes on; its context: %v", following.Err())
		}
	}))
}

// Promise: who follows a set of locks is told of each change, not of renewals, and of nothing when its context ends.
func TestASetOfLocksIsFollowed(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w, interlock.Prefix("app/")), join(t, w, interlock.Prefix("app/"))
		following, stop := context.WithCancel(ctx)
		seen := make(chan []interlock.Queue, 10)
		ended := make(chan error, 1)
		go func() {
			for all, err := range b.Admin().FollowAll(following, "jobs/") {
				if err != nil {
					ended <- err
				}
				seen <- all
			}
			close(ended)
		}()
		expect := func(what string, states ...string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			var all []interlock.Queue
			for len(seen) > 0 { // it may have looked between two changes
				all = <-seen
			}
			fatalIf(t, all == nil, "%s: not told", what)
			got := []string{}
			for _, q := range all {
				got = append(got, fmt.Sprintf("%s %d+%d", q.Name, len(q.Holders), len(q.Waiters)))
			}
			failIf(t, !slices.Equal(got, states), "%s: %q, want %q", what, got, states)
		}
		expect("at first")
		first := acquire(t, a.Mutex("jobs/a"))
		acquire(t, a.Mutex("other"))
		expect("one is held", "jobs/a 1+0")
		waits := async(ctx, b.Mutex("jobs/a"))
		expect("another one waits", "jobs/a 1+1")
		second := acquire(t, a.Mutex("jobs/b"))
		expect("two are held", "jobs/a 1+1", "jobs/b 1+0")
		time.Sleep(5 * time.Minute)
		failIf(t, len(seen) > 0, "told of a renewal")
		ok(t, first.Release())
		turn(t, waits)
		expect("one is free", "jobs/b 1+0")
		ok(t, second.Release())
		expect("both are free")
		stop()
		equal(t, <-ended, nil, "it ended with")
	})
}

// Promise: a lock is the same as long as nothing but times has changed; a pause that begins or ends is a change.
func TestALockIsTheSameAtAnotherTime(t *testing.T) {
	of := func(s int64) interlock.Queue {
		m := interlock.Member{ID: "m", Since: time.Unix(s, 0), Until: time.Unix(s, 0)}
		return interlock.Queue{Holders: []interlock.Member{m}, Waiters: []interlock.Member{m}, Overruns: []interlock.Overrun{{Since: m.Since}}, Paused: m.Since}
	}
	failIf(t, !of(1).Same(of(2)), "it changes with times")
	for what, change := range map[string]func(*interlock.Queue){
		"a note":  func(q *interlock.Queue) { q.Holders[0].Note = "other" },
		"a pause": func(q *interlock.Queue) { q.Paused = time.Time{} },
	} {
		q := of(1)
		change(&q)
		failIf(t, q.Same(of(1)), "%s does not change it", what)
	}
}
