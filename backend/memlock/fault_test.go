package memlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

func TestAFault(t *testing.T) {
	ctx := context.Background()
	type env struct {
		d      *memlock.Driver
		s      driver.Session
		faults *memlock.Faults
	}
	run := func(name string, f func(t *testing.T, e env)) {
		simulated(t, name, func(t *testing.T) {
			d := memlock.New()
			defer d.Close()
			f(t, env{d, open(t, d), d.Faults()})
		})
	}
	short := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, time.Second) }

	run("before the effect prevents it", func(t *testing.T, e env) {
		r := mutex("q")
		e.faults.Before("Join", 1).Fail()
		_, err := e.s.Join(ctx, r)
		is(t, err, memlock.ErrFailed)
		if driver.IsPermanent(err) {
			t.Fatal("it must be worth repeating")
		}
		_, err = e.s.Await(ctx, driver.Ticket{ID: r.ID, Queue: "q"})
		is(t, err, driver.ErrGone)
		if e.faults.Waiting() != 0 {
			t.Fatal("the fault is not used up")
		}
	})
	run("after the effect loses the reply only", func(t *testing.T, e env) {
		r := mutex("q")
		e.faults.After("Join", 1).Fail()
		k, err := e.s.Join(ctx, r)
		is(t, err, memlock.ErrReply)
		if k != (driver.Ticket{}) {
			t.Fatalf("the caller knows of %+v", k)
		}
		held(t, e.s, r, true)
	})
	run("meets the k-th call of its method", func(t *testing.T, e env) {
		e.faults.Before("Leave", 2).Fail()
		for i := range 3 {
			k := join(t, e.s, mutex("q"))
			err := e.s.Leave(ctx, k, true)
			if i == 1 {
				is(t, err, memlock.ErrFailed)
				err = e.s.Leave(ctx, k, true)
			}
			ok(t, err)
		}
	})
	run("meets the k-th call of all", func(t *testing.T, e env) {
		e.faults.Before("", 2).Fail()
		k := join(t, e.s, mutex("q"))
		is(t, e.s.Leave(ctx, k, true), memlock.ErrFailed)
		ok(t, e.s.Leave(ctx, k, true))
	})
	run("meets every call until it is taken back", func(t *testing.T, e env) {
		e.faults.Before("Load", 0).Fail()
		for range 3 {
			_, err := e.d.Load(ctx, "c")
			is(t, err, memlock.ErrFailed)
		}
		e.faults.Clear()
		_, err := e.d.Load(ctx, "c")
		ok(t, err)
	})
	run("is one per call", func(t *testing.T, e env) {
		e.faults.Before("Load", 1).Fail()
		e.faults.Before("Load", 1).Fail()
		for range 2 {
			_, err := e.d.Load(ctx, "c")
			is(t, err, memlock.ErrFailed)
		}
		_, err := e.d.Load(ctx, "c")
		ok(t, err)
	})
	run("of no method is a panic", func(t *testing.T, e env) {
		defer func() {
			if recover() == nil {
				t.Fatal("no panic")
			}
		}()
		e.faults.Before("join", 1)
	})

	run("hangs until the context ends, and the effect comes later", func(t *testing.T, e env) {
		r := mutex("q")
		h := e.faults.Before("Join", 1).Hang()
		ctx, cancel := short()
		defer cancel()
		_, err := e.s.Join(ctx, r)
		is(t, err, context.DeadlineExceeded)
		_, err = e.s.Await(t.Context(), driver.Ticket{ID: r.ID, Queue: "q"})
		is(t, err, driver.ErrGone)
		h.Deliver()
		k, err := e.s.Await(t.Context(), driver.Ticket{ID: r.ID, Queue: "q"})
		ok(t, err)
		if !k.Held {
			t.Fatalf("%+v", k)
		}
	})
	run("lets a Join land after its Leave, which refuses it", func(t *testing.T, e env) {
		r := mutex("q")
		h := e.faults.Before("Join", 1).Hang()
		ctx, cancel := short()
		defer cancel()
		_, err := e.s.Join(ctx, r)
		is(t, err, context.DeadlineExceeded)
		is(t, e.s.Leave(t.Context(), driver.Ticket{ID: r.ID, Queue: "q"}, true), driver.ErrGone)
		h.Deliver()
		if k := join(t, e.s, mutex("q")); !k.Held {
			t.Fatal("a ghost holds the lock")
		}
	})
	run("hangs and is lost", func(t *testing.T, e env) {
		r := mutex("q")
		h := e.faults.Before("Join", 1).Hang()
		ctx, cancel := short()
		defer cancel()
		_, err := e.s.Join(ctx, r)
		is(t, err, context.DeadlineExceeded)
		h.Lose()
		_, err = e.s.Await(t.Context(), driver.Ticket{ID: r.ID, Queue: "q"})
		is(t, err, driver.ErrGone)
	})
	run("sticks whatever the context says", func(t *testing.T, e env) {
		h := e.faults.Before("Join", 1).Stick()
		ctx, cancel := short()
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := e.s.Join(ctx, mutex("q"))
			done <- err
		}()
		<-h.Reached()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("returned: %v", err)
		default:
		}
		h.Deliver()
		ok(t, <-done)
	})
	run("hangs after the effect", func(t *testing.T, e env) {
		r := mutex("q")
		h := e.faults.After("Join", 1).Hang()
		done := make(chan error)
		go func() {
			_, err := e.s.Join(ctx, r)
			done <- err
		}()
		<-h.Reached()
		held(t, e.s, r, true)
		h.Lose()
		is(t, <-done, memlock.ErrReply)
	})
	run("that hangs for every call hangs for none after its end", func(t *testing.T, e env) {
		h := e.faults.Before("", 0).Hang()
		for range 3 {
			ctx, cancel := short()
			_, err := e.d.Load(ctx, "c")
			is(t, err, context.DeadlineExceeded)
			cancel()
		}
		h.Deliver()
		_, err := e.d.Load(ctx, "c")
		ok(t, err)
		if e.faults.Waiting() != 0 {
			t.Fatal("it is still there")
		}
	})
	run("that sticks ends with the driver", func(t *testing.T, e env) {
		h := e.faults.Before("Load", 1).Stick()
		done := make(chan error)
		go func() {
			_, err := e.d.Load(ctx, "c")
			done <- err
		}()
		<-h.Reached()
		ok(t, e.d.Close())
		if err := <-done; !driver.IsPermanent(err) {
			t.Fatal(err)
		}
	})
	run("of a waiting call", func(t *testing.T, e env) {
		k := join(t, e.s, mutex("q"))
		e.faults.After("Await", 1).Fail()
		_, err := e.s.Await(ctx, k)
		is(t, err, memlock.ErrReply)
		_, err = e.s.Await(ctx, k)
		ok(t, err)
	})
}

func TestAClientThatIsCutOff(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ctx := t.Context()
		w := memlock.NewWorld()
		d, other := w.Driver(), w.Driver()
		defer d.Close()
		defer other.Close()
		s := open(t, d)
		far, err := other.Open(ctx, driver.SessionOptions{TTL: time.Hour})
		ok(t, err)
		mine := join(t, s, mutex("mine"))
		theirs := join(t, far, mutex("theirs"))
		waiting := join(t, s, mutex("theirs"))
		next := join(t, far, mutex("mine"))
		began := time.Now()

		granted, followed := make(chan error), make(chan error)
		go func() {
			_, err := s.Await(ctx, waiting)
			granted <- err
		}()
		before, err := d.Follow(ctx, "theirs", "")
		ok(t, err)
		go func() {
			_, err := d.Follow(ctx, "theirs", before.Version)
			followed <- err
		}()
		synctest.Wait()
		d.Faults().Cut()

		for { // a Wanted came before
			sig, err := s.Signals(ctx)
			ok(t, err)
			if sig.Demand == driver.Doubt {
				break
			}
		}
		_, err = s.Renew(ctx, []driver.Ticket{mine})
		is(t, err, memlock.ErrCut)
		if f := d.Check(ctx); len(f) != 1 || f[0].Status != driver.Fail {
			t.Fatalf("%+v", f)
		}

		// It learns nothing, though its ticket is granted; and loses everything in time.
		ok(t, far.Leave(ctx, theirs, true))
		awaitAt(t, far, next, began, ttl)
		synctest.Wait()
		select {
		case err := <-granted:
			t.Fatalf("Await returned: %v", err)
		case err := <-followed:
			t.Fatalf("Follow returned: %v", err)
		default:
		}
		d.Faults().Heal()
		is(t, <-granted, driver.ErrGone)
		ok(t, <-followed)
		r, err := s.Renew(ctx, []driver.Ticket{mine})
		ok(t, err)
		if len(r) != 1 || r[0].State != driver.Gone {
			t.Fatalf("%+v", r)
		}
	})
}

func TestAnExpiredSessionIsOver(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ctx := t.Context()
		d := memlock.New()
		defer d.Close()
		s := open(t, d)
		k := join(t, s, mutex("q"))
		wait := join(t, s, mutex("q"))
		done := make(chan error, 2)
		go func() {
			_, err := s.Await(ctx, wait)
			done <- err
		}()
		go func() {
			var err error
			for err == nil {
				_, err = s.Signals(ctx)
			}
			done <- err
		}()
		synctest.Wait()
		d.Faults().Expire()
		is(t, <-done, driver.ErrSession)
		is(t, <-done, driver.ErrSession)
		_, err := s.Join(ctx, mutex("q"))
		is(t, err, driver.ErrSession)
		_, err = s.Renew(ctx, []driver.Ticket{k})
		is(t, err, driver.ErrSession)
		for name, err := range map[string]error{
			"Leave": s.Leave(ctx, k, true), "Shrink": s.Shrink(ctx, k, 1), "Keep": s.Keep(ctx, k, ttl), "Close": s.Close(ctx),
		} {
			if !errors.Is(err, driver.ErrSession) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if k := join(t, open(t, d), mutex("q")); !k.Held || !k.Inherited {
			t.Fatalf("%+v", k)
		}
	})
}

// A user's test in simulated time: a worker that is cut off must have stopped
// before another one holds the lock. It takes no real time, and always takes the
// same simulated time.
func TestAWorkerThatIsCutOffStopsBeforeTheNextBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		world := memlock.NewWorld()
		d := world.Driver()
		first, err := interlock.New(ctx, d)
		ok(t, err)
		second, err := interlock.New(ctx, world.Driver())
		ok(t, err)

		var stopped time.Time
		done := make(chan error)
		working := make(chan struct{})
		go func() {
			done <- first.Mutex("report").Do(ctx, func(ctx context.Context) error {
				d.Faults().Cut() // the stop point
				close(working)
				<-ctx.Done()
				stopped = time.Now()
				return nil
			})
		}()
		<-working
		lease, err := second.Mutex("report").Acquire(ctx)
		ok(t, err)
		began := time.Now()
		if err := <-done; !errors.Is(err, interlock.ErrLost) {
			t.Errorf("the first worker was not told: %v", err)
		}
		if !stopped.Before(began) {
			t.Errorf("the first stopped at %v, the second began at %v", stopped, began)
		}
		ok(t, lease.Release())
		ok(t, second.Close())
		d.Faults().Heal()
		ok(t, first.Close())
	})
}
