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
	fixed := func(queue string) driver.Request {
		r := aMutex(queue)
		r.Hold = time.Hour
		return r
	}
	swap := func(d driver.Driver, version uint64) (driver.Cell, error) {
		return d.Swap(ctx, driver.Swap{ID: someID(), Name: "c", Version: version, Value: []byte("v")})
	}
	must := func(c driver.Cell, err error) driver.Cell {
		t.Helper()
		if err != nil {
			t.Fatalf("Swap at the leader: %v", err)
		}
		return c
	}

	// Each case prepares something that both servers know, changes it at the
	// leader, and calls through the follower.
	var before, now driver.Ticket
	var again driver.Request
	var was, is driver.Cell
	left := func(string) {
		noError(t, a.Leave(ctx, before, true))
	}
	isGone := func(err error) error {
		if !errors.Is(err, driver.ErrGone) {
			return fmt.Errorf("the ticket has left, and not ErrGone is said: %w", err)
		}
		return nil
	}
	for _, c := range []struct {
		name            string
		prepare, change func(queue string)
		call            func(queue string) error
	}{
		{"Join with NoWait",
			func(q string) { before = join(aMutex(q)) },
			left,
			func(q string) error {
				r := aMutex(q)
				r.NoWait = true
				_, err := b.Join(ctx, r)
				return err
			}},
		{"Join that is repeated",
			func(q string) {
				before = join(aMutex(q))
				again = aMutex(q)
				if got, err := b.Join(ctx, again); err != nil || got.Held {
					t.Fatal(got, err)
				}
				again.Retry = true
			},
			left,
			func(string) error {
				got, err := b.Join(ctx, again)
				if err == nil && !got.Held {
					err = errors.New("it waits")
				}
				return err
			}},
		{"Join with NoWait of another kind",
			func(q string) {
				r := aMutex(q)
				r.Kind, r.Capacity = driver.Semaphore, 5
				before = join(r)
			},
			left,
			func(q string) error {
				r := aMutex(q)
				r.NoWait = true
				_, err := b.Join(ctx, r)
				return err
			}},
		{"Keep of another session's ticket",
			func(q string) { before = join(aMutex(q)) },
			func(string) {
				noError(t, a.Keep(ctx, before, time.Hour))
			},
			func(string) error { return b.Keep(ctx, before, time.Minute) }},
		{"Leave of another session's ticket", nil,
			func(q string) { now = join(fixed(q)) },
			func(string) error { return b.Leave(ctx, now, true) }},
		{"Renew of another session's ticket", nil,
			func(q string) { now = join(fixed(q)) },
			func(string) error {
				answer, err := b.Renew(ctx, []driver.Ticket{now})
				for _, r := range answer {
					if r.ID == now.ID && r.State == driver.Kept {
						return nil
					}
				}
				return fmt.Errorf("%+v, %w", answer, err)
			}},
		{"Revoke", nil,
			func(q string) { now = join(aMutex(q)) },
			func(q string) error { return far.Ask(ctx, q, now.ID, driver.Revoke) }},
		{"Evict", nil,
			func(q string) { now = join(fixed(q)) },
			func(q string) error { return far.Ask(ctx, q, now.ID, driver.Evict) }},
		{"Force", nil,
			func(q string) { now = join(aMutex(q)) },
			func(q string) error { return far.Ask(ctx, q, now.ID, driver.Force) }},
		{"Revoke of a ticket that has left",
			func(q string) { before = join(aMutex(q)) }, left,
			func(q string) error { return isGone(far.Ask(ctx, q, before.ID, driver.Revoke)) }},
		{"Revoke of a fixed ticket that has left",
			func(q string) { before = join(fixed(q)) }, left,
			func(q string) error { return isGone(far.Ask(ctx, q, before.ID, driver.Revoke)) }},
		{"Evict of a ticket that has left",
			func(q string) { before = join(aMutex(q)) }, left,
			func(q string) error { return isGone(far.Ask(ctx, q, before.ID, driver.Evict)) }},
		{"Evict of a fixed ticket that has left",
			func(q string) { before = join(fixed(q)) }, left,
			func(q string) error { return isGone(far.Ask(ctx, q, before.ID, driver.Evict)) }},
		{"Force of a ticket that has left",
			func(q string) { before = join(aMutex(q)) }, left,
			func(q string) error { return isGone(far.Ask(ctx, q, before.ID, driver.Force)) }},
		{"Leave of another session's ticket that has left",
			func(q string) { before = join(fixed(q)) }, left,
			func(string) error { return isGone(b.Leave(ctx, before, true)) }},
		{"Keep of another session's ticket that has left",
			func(q string) { before = join(fixed(q)) }, left,
			func(string) error { return isGone(b.Keep(ctx, before, time.Minute)) }},
		{"Follow", nil,
			func(q string) { now = join(aMutex(q)) },
			func(q string) error {
				got, err := far.Follow(ctx, q, "")
				if err == nil && len(got.Members) != 1 {
					err = fmt.Errorf("the queue is %+v", got)
				}
				return err
			}},
		{"Queues", nil,
			func(q string) { now = join(aMutex(q)) },
			func(q string) error {
				for got, err := range far.Queues(ctx, q) {
					if err != nil || got.Name == q {
						return err
					}
				}
				return errors.New("the queue is not among them")
			}},
		{"Load",
			func(string) { was = must(swap(near, is.Version)) },
			func(string) { is = must(swap(near, was.Version)) },
			func(string) error {
				got, err := far.Load(ctx, "c")
				if err == nil && got.Version != is.Version {
					err = fmt.Errorf("version %d after %d", got.Version, is.Version)
				}
				return err
			}},
		{"Watch",
			func(string) { was = must(swap(near, is.Version)) },
			func(string) { is = must(swap(near, was.Version)) },
			func(string) error {
				soon, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if got, err := far.Watch(soon, "c", is.Version); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("version %d after %d, %v", got.Version, is.Version, err)
				}
				return nil
			}},
		{"Swap of a new value",
			func(string) {},
			func(q string) {
				got, err := near.Swap(ctx, driver.Swap{ID: someID(), Name: q})
				was = must(got, err)
			},
			func(q string) error {
				_, err := far.Swap(ctx, driver.Swap{ID: someID(), Name: q, Version: was.Version})
				return err
			}},
		{"Swap",
			func(string) { was = must(swap(near, is.Version)) },
			func(string) { is = must(swap(near, was.Version)) },
			func(string) (err error) {
				is, err = swap(far, is.Version)
				return err
			}},
	} {
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
