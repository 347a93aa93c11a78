package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: no call tells of an older state than another client has seen, or
// refuses because of one. A follower that lags behind answers reads by itself.
func TestNoCallTellsOfAnOlderState(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3, zktest.Config("syncLimit", "100")) // so long a test may pause
	t.Run("calls", func(t *testing.T) { callsThroughAFollowerThatLags(t, e) })
	t.Run("a creation under way", func(t *testing.T) { creationUnderWayMakesNoSecondTicket(t, e) })
	t.Run("a number of before", func(t *testing.T) { aFollowerThatLagsGrantsByNoNumberOfBefore(t, e) })
}

func callsThroughAFollowerThatLags(t *testing.T, e *zktest.Ensemble) {
	follower, leader := e.Followers()[0], e.Leader()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(2*time.Minute))
	defer cancel()
	open := func(s *zktest.Server) (driver.Driver, *driver.Opened) {
		d := errtest.Must(openURL(ctx, "zk://"+s.Addr+"/lag"))(t)
		t.Cleanup(func() { d.Close() })
		session := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: 30 * time.Second}))(t)
		return d, session
	}
	near, a := open(leader)
	far, b := open(follower)

	join := func(r driver.Request) driver.Ticket {
		t.Helper()
		got, err := a.Join(ctx, r)
		if err != nil || !got.Held {
			t.Fatalf("Join at the leader: %+v, %v", got, err)
		}
		return got
	}
	fixed := func(q string) driver.Request {
		r := aMutex(q)
		r.Hold = time.Hour
		return r
	}
	five := func(q string) driver.Request { return permits(q, 1, 5) }

	// Each case prepares something that both servers know, changes it at the
	// leader, and calls through the follower.
	type calls struct {
		name            string
		prepare, change func(queue string)
		call            func(queue string) error
	}
	var k driver.Ticket // at the leader
	var again driver.Request
	var is driver.Cell
	stands := func(r func(string) driver.Request) func(string) { return func(q string) { k = join(r(q)) } }
	left := func(string) { noError(t, a.Leave(ctx, k, true)) }
	swap := func(d driver.Driver, name string, version uint64) (driver.Cell, error) {
		return d.Swap(ctx, driver.Swap{ID: someID(), Name: name, Version: version, Value: []byte("v")})
	}
	swaps := func(string) { is = errtest.Must(swap(near, "c", is.Version))(t) }
	tries := func(q string) error {
		r := aMutex(q)
		r.NoWait = true
		_, err := b.Join(ctx, r)
		return err
	}
	leave := func(string) error { return b.Leave(ctx, k, true) }
	keep := func(string) error { return b.Keep(ctx, k, time.Minute) }
	ask := func(what driver.Demand) func(string) error {
		return func(q string) error { return far.Ask(ctx, q, k.ID, what) }
	}
	cases := []calls{
		{"Join with NoWait", stands(aMutex), left, tries},
		{"Join with NoWait of another kind", stands(five), left, tries},
		{"Join that is repeated", func(q string) {
			k, again = join(aMutex(q)), aMutex(q)
			if got, err := b.Join(ctx, again); err != nil || got.Held {
				t.Fatal(got, err)
			}
			again.Retry = true
		}, left, func(string) error {
			got, err := b.Join(ctx, again)
			if err == nil && !got.Held {
				err = errors.New("it waits")
			}
			return err
		}},
		{"Keep of another session's ticket", stands(aMutex), func(string) { noError(t, a.Keep(ctx, k, time.Hour)) }, keep},
		{"Leave of another session's ticket", nil, stands(fixed), leave},
		{"Renew of another session's ticket", nil, stands(fixed), func(string) error {
			answer, err := b.Renew(ctx, []driver.Ticket{k})
			for _, r := range answer {
				if r.ID == k.ID && r.State == driver.Kept {
					return nil
				}
			}
			return fmt.Errorf("%+v, %w", answer, err)
		}},
		{"Revoke", nil, stands(aMutex), ask(driver.Revoke)},
		{"Evict", nil, stands(fixed), ask(driver.Evict)},
		{"Force", nil, stands(aMutex), ask(driver.Force)},
		{"Follow", nil, stands(aMutex), func(q string) error {
			got, err := far.Follow(ctx, q, "")
			if err == nil && len(got.Members) != 1 {
				err = fmt.Errorf("the queue is %+v", got)
			}
			return err
		}},
		{"Queues", nil, stands(aMutex), func(q string) error {
			for got, err := range far.Queues(ctx, q) {
				if err != nil || got.Name == q {
					return err
				}
			}
			return errors.New("the queue is not among them")
		}},
		{"Load", swaps, swaps, func(string) error {
			got, err := far.Load(ctx, "c")
			if err == nil && got.Version != is.Version {
				err = fmt.Errorf("version %d after %d", got.Version, is.Version)
			}
			return err
		}},
		{"Watch", swaps, swaps, func(string) error {
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if got, err := far.Watch(soon, "c", is.Version); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("version %d after %d, %v", got.Version, is.Version, err)
			}
			return nil
		}},
		{"Swap", swaps, swaps, func(string) (err error) {
			is, err = swap(far, "c", is.Version)
			return err
		}},
		{"Swap of a new value", nil, func(q string) { is = errtest.Must(swap(near, q, 0))(t) }, func(q string) error {
			_, err := swap(far, q, is.Version)
			return err
		}},
	}
	gone := func(name string, r func(string) driver.Request, call func(string) error) {
		cases = append(cases, calls{name + " of a ticket that has left", stands(r), left, func(q string) error {
			if err := call(q); !errors.Is(err, driver.ErrGone) {
				return fmt.Errorf("the ticket has left, and not ErrGone is said: %w", err)
			}
			return nil
		}})
	}
	for what, name := range map[driver.Demand]string{driver.Revoke: "Revoke", driver.Evict: "Evict", driver.Force: "Force"} {
		gone(name, aMutex, ask(what))
		gone(name+", to a fixed end,", fixed, ask(what))
	}
	gone("Leave", fixed, leave)
	gone("Keep", fixed, keep)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			queue := someID()
			if c.prepare != nil {
				c.prepare(queue)
			}
			if _, err := far.Load(ctx, "c"); err != nil { // the follower has caught up
				t.Fatal(err)
			}
			e.Freeze(follower)
			c.change(queue)
			called := make(chan error, 1)
			go func() { called <- c.call(queue) }()
			select {
			case err := <-called: // without the leader
				called <- err
			case <-time.After(200 * time.Millisecond):
			}
			e.Thaw(follower)
			if err := <-called; err != nil {
				t.Error(err)
			}
		})
	}
}

// Promise: a Join that is repeated never makes a second ticket. The creation may
// still be under way, in a server that the client has left.
func creationUnderWayMakesNoSecondTicket(t *testing.T, e *zktest.Ensemble) {
	followers := e.Followers()
	left, right := zktest.NewProxy(t, followers[0].Addr), zktest.NewProxy(t, followers[1].Addr)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	right.Refuse(true)
	d := errtest.Must(openURL(ctx, "zk://"+left.Addr+","+right.Addr+"/lag"))(t)
	defer d.Close()
	s := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: 30 * time.Second}))(t)
	front := errtest.Must(s.Join(ctx, aMutex("q")))(t) // all nodes are there
	e.Freeze(followers[0])
	r := aMutex("q")
	first, giveUp := context.WithTimeout(ctx, 200*time.Millisecond)
	defer giveUp()
	if _, err := s.Join(first, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Join that is not passed on: %v", err)
	}
	right.Refuse(false)
	left.Refuse(true)
	left.Cut()
	r.Retry = true
	for {
		_, err := s.Join(ctx, r)
		if err == nil {
			break
		}
		if driver.IsPermanent(err) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.Thaw(followers[0])
	e.Followers()
	// What it had to pass on was refused, or this ticket is it.
	q := errtest.Must(d.Follow(ctx, "q", ""))(t)
	if len(q.Members) != 2 || q.Members[0].ID != front.ID || q.Members[1].ID != r.ID {
		t.Errorf("two tickets are to stand: %+v", q.Members)
	}
}

// Promise: a server that lags behind lets nobody in by a number of before: who is granted there was so before the
// number was set, and counts as a holder.
func aFollowerThatLagsGrantsByNoNumberOfBefore(t *testing.T, e *zktest.Ensemble) {
	follower, leader := e.Followers()[0], e.Leader()
	near, far := opened(t, leader.Addr), opened(t, follower.Addr)
	a, b := &party{t: t, d: near, Opened: session(t, near, 30*time.Second)}, &party{t: t, d: far, Opened: session(t, far, 30*time.Second)}
	one, other := a.holds(permits("q", 3, 5)), a.holds(permits("q", 2, 5))
	r := permits("q", 2, 5)
	granted := b.awaits(b.waits(r))
	b.stillWaits(r) // the follower has caught up
	e.Freeze(follower)
	a.resizes("q", 4)
	a.leaves(other)
	if found := a.shows("q"); len(found.Members) != 2 || found.Members[1].Held {
		t.Errorf("3 and 2 of 4: %+v", found)
	}
	e.Thaw(follower)
	b.stillWaits(r)
	b.notGranted(granted)
	a.leaves(one)
	b.granted(granted)
}
