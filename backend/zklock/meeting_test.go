package zklock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zkpeer"
	"github.com/interlock-go/interlock/internal/zktest"
)

const barriers = "?barrier=curator"

// guest is a member of a double barrier, in Go or in Java.
type guest struct {
	name         string
	enter, leave func(context.Context) error
}

func ourGuest(name string, c *interlock.Client, path string, n int) guest {
	b := c.DoubleBarrier(path[1:], n)
	var lease *interlock.Lease
	return guest{name, func(ctx context.Context) (err error) {
		lease, err = b.Enter(ctx)
		return err
	}, func(ctx context.Context) error { return b.Leave(ctx, lease) }}
}

func theirGuest(name string, th *zkpeer.Thread, path string, n int) guest {
	b := th.DoubleBarrier(path, n)
	return guest{name, b.Enter, b.Leave}
}

// step has them do something one after the other, in any order, and makes sure that
// nobody is done before the last one has begun.
func step(t *testing.T, ctx context.Context, what string, all []guest, f func(guest) func(context.Context) error) {
	t.Helper()
	type result struct {
		name string
		err  error
	}
	done := make(chan result, len(all))
	for i, k := range rand.Perm(len(all)) {
		if i == len(all)-1 {
			select {
			case r := <-done:
				t.Fatalf("%s is done to %s before %s (%v)", r.name, what, all[k].name, r.err)
			case <-time.After(30 * time.Millisecond):
			}
		}
		go func() { done <- result{all[k].name, f(all[k])(ctx)} }()
	}
	for range all {
		if r := <-done; r.err != nil {
			t.Fatalf("%s: %s: %v", r.name, what, r.err)
		}
	}
}

func entering(g guest) func(context.Context) error { return g.enter }
func going(g guest) func(context.Context) error    { return g.leave }

// Promise: with barrier=curator, members in Go and in Java enter together and leave
// together, round after round.
func TestDoubleBarrierOfCurator(t *testing.T) {
	t.Parallel()
	s := lent(t)
	java := zkpeer.Curator(t, s.Addr)
	ctx := limited(t)
	a, b := program(t, s.Addr, barriers), program(t, s.Addr, barriers)
	for _, mix := range []struct{ ours, theirs int }{{1, 1}, {2, 2}, {3, 1}, {1, 3}, {3, 0}} {
		t.Run(fmt.Sprintf("%d and %d", mix.ours, mix.theirs), func(t *testing.T) {
			path := fmt.Sprintf("/rounds/of-%d-%d", mix.ours, mix.theirs)
			var all []guest
			for i := range mix.ours {
				all = append(all, ourGuest(fmt.Sprint("ours ", i), []*interlock.Client{a, b}[i%2], path, mix.ours+mix.theirs))
			}
			for i := range mix.theirs {
				th := java.Session(fmt.Sprint("session ", i%2)).Thread(fmt.Sprint(path, i))
				all = append(all, theirGuest(fmt.Sprint("theirs ", i), th, path, mix.ours+mix.theirs))
			}
			for range 4 {
				step(t, ctx, "enter", all, entering)
				step(t, ctx, "leave", all, going)
			}
		})
	}
}

// Promise: a member that dies does not hang the others, whoever they are, waiting or
// inside.
func TestDoubleBarrierOfCuratorWhenOneDies(t *testing.T) {
	t.Parallel()
	s := lent(t)
	c, java := program(t, s.Addr, barriers), zkpeer.Curator(t, s.Addr)
	t.Run("theirs", func(t *testing.T) {
		t.Parallel()
		ctx := limited(t)
		dies := zkpeer.Curator(t, s.Addr, zkpeer.SessionTimeout(5*time.Second))
		const path = "/theirs"
		stay := []guest{ourGuest("ours", c, path, 3), theirGuest("theirs", java.Thread("theirs"), path, 3)}
		step(t, ctx, "enter", append(stay, theirGuest("dead", dies.Thread("x"), path, 3)), entering)
		dies.Kill()
		step(t, ctx, "leave", stay, going)
	})
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		ctx := limited(t)
		via := zktest.NewProxy(t, s.Addr)
		dead := errtest.Must(interlock.Open(ctx, "zk://"+via.Addr+"/"+barriers, interlock.TTL(5*time.Second)))(t)
		defer dead.Close()
		const path = "/ours"
		stay := []guest{ourGuest("ours", c, path, 3), theirGuest("theirs", java.Thread("ours"), path, 3)}
		step(t, ctx, "enter", append(stay, ourGuest("dead", dead, path, 3)), entering)
		via.Hang()
		defer via.Resume()
		step(t, ctx, "leave", stay, going)
	})
	t.Run("before the round", func(t *testing.T) {
		t.Parallel()
		ctx := limited(t)
		short, cancel := context.WithCancel(ctx)
		gone := make(chan error, 1)
		go func() { gone <- ourGuest("gone", c, "/before", 2).enter(short) }()
		watchQueue(t, c, "before", func(q interlock.Queue) bool { return len(q.Holders) == 1 })
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		all := []guest{ourGuest("ours", c, "/before", 2), theirGuest("theirs", java.Thread("before"), "/before", 2)}
		step(t, ctx, "enter", all, entering)
		if q := watchQueue(t, c, "before", func(interlock.Queue) bool { return true }); len(q.Holders) != 2 || q.Kind != string(driver.Barrier) {
			t.Errorf("%+v", q)
		}
		step(t, ctx, "leave", all, going)
	})
}

// Promise: with barrier=curator, the round's cell changes when a member comes late, who is in the
// round, too.
func TestALateMemberIsNewsOfTheRound(t *testing.T) {
	t.Parallel()
	d := errtest.Must(openURL(t.Context(), "zk://"+lent(t).Addr+"/late"+barriers))(t)
	defer d.Close()
	s, ctx := session(t, d, 10*time.Second), limited(t)
	member := func() string {
		got := errtest.Must(s.Join(ctx, driver.Request{ID: someID(), Queue: "q", Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity}))(t)
		return got.ID
	}
	value := errtest.Must(json.Marshal(driver.Round{Members: []string{member()}}))(t)
	round, err := d.Swap(ctx, driver.Swap{ID: someID(), Name: "q/round", Value: value})
	noError(t, err)
	type answer struct {
		cell driver.Cell
		err  error
	}
	told := make(chan answer, 1)
	before := d.Exchanges()
	go func() {
		got, err := d.Watch(ctx, "q/round", round.Version)
		told <- answer{got, err}
	}()
	busy.Until(t, "the round is watched", func() bool { return d.Exchanges() >= before+2 })
	late := member()
	got := <-told
	noError(t, got.err)
	if !strings.Contains(string(got.cell.Value), late) || got.cell.Version <= round.Version {
		t.Errorf("after %d came version %d, %s, without %s", round.Version, got.cell.Version, got.cell.Value, late)
	}
}

// Promise: hundreds of members of a double barrier enter and leave together, and none of their
// leases is lost, though they are renewed every second.
func TestHundredsOfMembersEnterAndLeave(t *testing.T) {
	t.Parallel()
	s := lent(t)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(45*time.Second))
	defer cancel()
	const n = 200
	var clients []*interlock.Client
	for range 2 {
		c := errtest.Must(interlock.Open(ctx, "zk://"+s.Addr+"/members", interlock.TTL(4*time.Second)))(t)
		defer c.Close()
		clients = append(clients, c)
	}
	var entered, left sync.WaitGroup
	entered.Add(n)
	for i := range n {
		d := clients[i%len(clients)].DoubleBarrier("d", n)
		left.Go(func() {
			lease, err := d.Enter(ctx)
			entered.Done()
			if err != nil {
				t.Errorf("Enter: %v", err)
				return
			}
			entered.Wait()
			if err := d.Leave(ctx, lease); err != nil {
				t.Errorf("Leave: %v", err)
			}
		})
	}
	left.Wait()
	// Each state that a client reads costs an exchange for each member that stands.
	exchanges := clients[0].Admin().Exchanges() + clients[1].Admin().Exchanges()
	if t.Logf("%d exchanges", exchanges); exchanges > 60_000 {
		t.Errorf("%d members cost %d exchanges", n, exchanges)
	}
}
