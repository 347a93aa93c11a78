package interlock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// quorum makes a client of several.
func quorum(t *testing.T, clients ...*interlock.Client) *interlock.Client {
	t.Helper()
	var members []driver.Driver
	for _, c := range clients {
		members = append(members, c.Driver())
	}
	d := errtest.Must(quorumlock.New(members...))(t)
	return errtest.Must(interlock.New(ctx, d, interlock.TTL(10*time.Second)))(t)
}

// members are clients of three backends that count as members of a quorum.
func members(t *testing.T, worlds []*memlock.World) (all []*interlock.Client, drivers []*memlock.Driver) {
	t.Helper()
	for _, w := range worlds {
		d := w.Driver()
		all, drivers = append(all, client(t, d)), append(drivers, d)
	}
	return all, drivers
}

// Promise: of several clients one can be made, whose lock is held on a majority of their backends, and
// which leaves them open.
func TestAQuorumOfClientsOutlivesAMinority(t *testing.T) {
	simulated(t, func(t *testing.T) {
		worlds := []*memlock.World{memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld()}
		clients, drivers := members(t, worlds)
		others, _ := members(t, worlds)
		a, b := quorum(t, clients...), quorum(t, others[2], others[0], others[1])
		time.Sleep(11 * time.Second) // they are new

		lease := errtest.Must(a.Mutex("order/1").Acquire(ctx))(t)
		wantErr(t, errOf(b.Mutex("order/1").TryAcquire(ctx)), interlock.ErrBusy)
		_, err := others[0].Mutex("order/1").TryAcquire(ctx) // the names are the same on the members
		wantErr(t, err, interlock.ErrBusy)

		drivers[0].Faults().Cut()
		time.Sleep(time.Minute)
		ok(t, lease.Err())
		wantErr(t, errOf(b.Mutex("order/1").TryAcquire(ctx)), interlock.ErrBusy)
		ok(t, lease.Release())
		next := errtest.Must(b.Mutex("order/1").Acquire(ctx))(t)
		failIf(t, next.Token() <= lease.Token(), "token %d after %d", next.Token(), lease.Token())
		ok(t, next.Release())
		drivers[0].Faults().Heal()

		ok(t, a.Close())
		ok(t, b.Close())
		for _, c := range append(clients, others...) {
			ok(t, errtest.Must(c.Mutex("own").Acquire(ctx))(t).Release())
		}
	})
}

// Promise: what a majority cannot carry is refused at once, whoever asks for it, with what to do instead, and leaves
// nothing behind.
func TestWhatAQuorumCannotCarryIsRefused(t *testing.T) {
	simulated(t, func(t *testing.T) {
		clients, _ := members(t, []*memlock.World{memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld()})
		c := quorum(t, clients...)
		defer c.Close()
		time.Sleep(11 * time.Second) // it is new
		leader := errtest.Must(c.Election("e").Campaign(ctx, "host:8080"))(t)
		began := time.Now()
		v := interlock.NewValue[int](c, "v")
		for name, call := range map[string]func() error{
			"Value.Get":            func() error { return errOf(v.Get(ctx)) },
			"Value.Set":            func() error { return errOf(v.Set(ctx, 1, 0)) },
			"Value.Update":         func() error { return errOf(v.Update(ctx, func(n int) (int, error) { return n + 1, nil })) },
			"Latch.Set":            func() error { return errOf(c.Latch("l").Set(ctx, 2)) },
			"Latch.CountDown":      func() error { return errOf(c.Latch("l").CountDown(ctx)) },
			"Latch.Count":          func() error { _, _, err := c.Latch("l").Count(ctx); return err },
			"Latch.Wait":           func() error { return c.Latch("l").Wait(ctx) },
			"Barrier.Set":          func() error { return c.Barrier("b").Set(ctx) },
			"Barrier.Wait":         func() error { return c.Barrier("b").Wait(ctx) },
			"DoubleBarrier.Enter":  func() error { return errOf(c.DoubleBarrier("d", 2).Enter(ctx)) },
			"DoubleBarrier.Count":  func() error { _, _, err := c.DoubleBarrier("d", 2).Count(ctx); return err },
			"Semaphore.Acquire":    func() error { return errOf(c.Semaphore("s", 3).Acquire(ctx)) },
			"Semaphore.TryAcquire": func() error { return errOf(c.Semaphore("s", 3).TryAcquire(ctx)) },
			"All":                  func() error { return errOf(interlock.All(c.Mutex("a"), c.Semaphore("s", 3)).Acquire(ctx)) },
			"SetPermits":           func() error { return c.Admin().SetPermits(ctx, "s", 3) },
			"UnsetPermits":         func() error { return c.Admin().UnsetPermits(ctx, "s") },
			"Election.SetValue":    func() error { return c.Election("e").SetValue(ctx, leader, "ready") },
		} {
			err := call()
			errtest.Is(t, err, errors.ErrUnsupported, name)
			errtest.Says(t, err, "on one backend")
		}
		for _, err := range v.Watch(ctx) {
			wantErr(t, err, errors.ErrUnsupported)
			break
		}
		within(t, began, time.Second, "they took")
		ok(t, leader.Release())
		for q, err := range c.Admin().Queues(ctx, "") {
			t.Errorf("%s is left, with %+v, %v", q.Name, q.Holders, err)
		}
	})
}

// Promise: an adopted lease has the token that its holder was told, although members have given larger and smaller ones.
func TestAnAdoptedLeaseOfAQuorumHasTheTokenOfItsHolder(t *testing.T) {
	for name, largestIs := range map[string]string{"the largest is late": "late", "the largest is not there any more": "cut"} {
		simulatedAs(t, name, func(t *testing.T) {
			worlds := []*memlock.World{memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld()}
			clients, drivers := members(t, worlds)
			others, adopters := members(t, worlds)
			a, b := quorum(t, clients...), quorum(t, others...)
			defer a.Close()
			defer b.Close()
			time.Sleep(11 * time.Second) // they are new

			ok(t, others[0].Admin().RaiseToken(ctx, "m", 1<<40))
			late := func() {}
			if largestIs == "late" {
				late = drivers[0].Faults().Before("Join", 1).Hang().Deliver
			}
			lease := errtest.Must(a.Mutex("m", interlock.ExpiresAfter(5*time.Second)).Acquire(ctx))(t)
			late()
			synctest.Wait()
			if largestIs == "cut" {
				adopters[0].Faults().Cut()
			}
			adopted := errtest.Must(b.Adopt(ctx, "m", lease.ID()))(t)
			failIf(t, adopted.Token() != lease.Token(), "the token of the holder is %d, that of the adopted lease %d", lease.Token(), adopted.Token())
		})
	}
}
