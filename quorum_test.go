package interlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// members are clients of three backends that count as members of a quorum.
func members(t *testing.T, worlds []*memlock.World) (all []*interlock.Client, drivers []*memlock.Driver) {
	t.Helper()
	for _, w := range worlds {
		d := w.Driver()
		c, err := interlock.New(ctx, d)
		ok(t, err)
		t.Cleanup(func() { c.Close() })
		all, drivers = append(all, c), append(drivers, d)
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
		a, err := interlock.Quorum(ctx, clients, interlock.TTL(10*time.Second))
		ok(t, err)
		b, err := interlock.Quorum(ctx, []*interlock.Client{others[2], others[0], others[1]}, interlock.TTL(10*time.Second))
		ok(t, err)
		time.Sleep(11 * time.Second) // they are new

		lease, err := a.Mutex("order/1").Acquire(ctx)
		ok(t, err)
		_, err = b.Mutex("order/1").TryAcquire(ctx)
		wantErr(t, err, interlock.ErrBusy)
		_, err = others[0].Mutex("order/1").TryAcquire(ctx) // the names are the same on the members
		wantErr(t, err, interlock.ErrBusy)

		drivers[0].Faults().Cut()
		time.Sleep(time.Minute)
		ok(t, lease.Err())
		_, err = b.Mutex("order/1").TryAcquire(ctx)
		wantErr(t, err, interlock.ErrBusy)
		ok(t, lease.Release())
		next, err := b.Mutex("order/1").Acquire(ctx)
		ok(t, err)
		if next.Token() <= lease.Token() {
			t.Errorf("token %d after %d", next.Token(), lease.Token())
		}
		ok(t, next.Release())
		drivers[0].Faults().Heal()

		ok(t, a.Close())
		ok(t, b.Close())
		for _, c := range append(clients, others...) {
			lease, err := c.Mutex("own").Acquire(ctx)
			ok(t, err)
			ok(t, lease.Release())
		}
	})
}

// Promise: what can be no quorum is refused at once.
func TestWhatIsNoQuorumIsRefused(t *testing.T) {
	simulated(t, func(t *testing.T) {
		clients, _ := members(t, []*memlock.World{memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld()})
		for name, of := range map[string][]*interlock.Client{
			"none":  nil,
			"two":   clients[:2],
			"twice": {clients[0], clients[1], clients[0]},
			"nil":   {clients[0], nil, clients[1]},
		} {
			c, err := interlock.Quorum(ctx, of)
			if c != nil || !errors.Is(err, interlock.ErrInvalid) {
				t.Errorf("%s: %v, %v", name, c, err)
			}
		}
	})
}
