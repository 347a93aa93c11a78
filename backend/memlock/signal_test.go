package memlock_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

// signals returns those that are there.
func signals(t *testing.T, s driver.Session) []driver.Signal {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all []driver.Signal
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			sig, err := s.Signals(ctx)
			if err != nil {
				return
			}
			all = append(all, sig)
		}
	}()
	synctest.Wait()
	cancel()
	<-done
	return all
}

func TestSignals(t *testing.T) {
	ctx := context.Background()
	expect := func(t *testing.T, s driver.Session, want ...driver.Signal) {
		t.Helper()
		got := signals(t, s)
		if len(got) != len(want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	}
	signal := func(k driver.Ticket, what driver.Demand) driver.Signal {
		return driver.Signal{Demand: what, Queue: k.Queue, ID: k.ID}
	}
	run := func(name string, f func(t *testing.T, d *memlock.Driver, a, b driver.Session)) {
		simulated(t, name, func(t *testing.T) {
			d := memlock.New()
			defer d.Close()
			f(t, d, open(t, d), open(t, d))
		})
	}

	run("tell every holder that somebody waits, and nobody else", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		r1, r2 := join(t, a, reader("q")), join(t, a, reader("q"))
		expect(t, a)
		w := join(t, b, writer("q"))
		expect(t, a, signal(r1, driver.Wanted), signal(r2, driver.Wanted))
		expect(t, b)
		ok(t, b.Leave(ctx, w, true))
		r3 := join(t, b, reader("q"))
		join(t, b, writer("q"))
		expect(t, b, signal(r3, driver.Wanted))
	})
	run("tell one that is granted while somebody waits behind", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		first, second := join(t, a, mutex("q")), join(t, b, mutex("q"))
		third := join(t, a, mutex("q"))
		expect(t, b)
		ok(t, a.Leave(ctx, first, true))
		expect(t, b, signal(second, driver.Wanted))
		ok(t, b.Leave(ctx, second, true))
		expect(t, a)
		held(t, a, driver.Request{ID: third.ID, Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}, true)
	})
	run("are not doubled before they are delivered", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		k := join(t, a, mutex("q"))
		for range 3 {
			ok(t, d.Ask(ctx, "q", k.ID, driver.Revoke))
		}
		ok(t, d.Ask(ctx, "q", k.ID, driver.Evict))
		expect(t, a, signal(k, driver.Evict), signal(k, driver.Revoke))
	})
	run("are repeated with the next Renew if their reply was lost", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		k := join(t, a, mutex("q"))
		join(t, b, mutex("q"))
		d.Faults().After("Signals", 1).Fail()
		_, err := a.Signals(ctx)
		is(t, err, memlock.ErrReply)
		expect(t, a)
		_, err = a.Renew(ctx, []driver.Ticket{k})
		ok(t, err)
		expect(t, a, signal(k, driver.Wanted))
	})
	run("end with their ticket", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		k := join(t, a, mutex("q"))
		join(t, b, mutex("q"))
		ok(t, a.Leave(ctx, k, true))
		expect(t, a)
	})
	run("tell a holder that its ticket was taken away", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		k := join(t, a, mutex("q"))
		ok(t, d.Ask(ctx, "q", k.ID, driver.Force))
		expect(t, a, signal(k, driver.Evict))
	})
	run("are for tickets that stand", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		k := join(t, a, mutex("q"))
		is(t, d.Ask(ctx, "q", newID(), driver.Revoke), driver.ErrGone)
		is(t, d.Ask(ctx, "p", k.ID, driver.Revoke), driver.ErrGone)
	})
	run("evict one that waits at once", func(t *testing.T, d *memlock.Driver, a, b driver.Session) {
		join(t, a, mutex("q"))
		k := join(t, b, mutex("q"))
		ok(t, d.Ask(ctx, "q", k.ID, driver.Evict))
		_, err := b.Await(ctx, k)
		is(t, err, driver.ErrGone)
	})
}
