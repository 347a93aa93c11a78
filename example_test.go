package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
)

// open opens a client of a backend that these examples have to themselves.
func open() *interlock.Client {
	c, err := interlock.Open(context.Background(), "mem:")
	if err != nil {
		panic(err)
	}
	return c
}

func Example() {
	ctx := context.Background()
	c, err := interlock.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	err = c.Mutex("report").Do(ctx, func(ctx context.Context) error {
		fmt.Println("nobody else writes the report")
		return ctx.Err() // ends if the lock is lost
	})
	fmt.Println(err)
	// Output:
	// nobody else writes the report
	// <nil>
}

func ExampleClient_Mutex() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	stock := 1
	sell := func(ctx context.Context) error {
		if stock == 0 {
			return errors.New("sold out")
		}
		stock--
		return nil
	}
	item := c.Mutex("stock/42")
	fmt.Println(item.Do(ctx, sell))
	fmt.Println(item.Do(ctx, sell))
	// Output:
	// <nil>
	// sold out
}

// The context of the work ends with the lease.
func ExampleLease_Bind() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("report").Acquire(ctx)
	work, stop := lease.Bind(ctx)
	defer stop()
	_ = c.Admin().Evict(ctx, "report", lease.ID(), false) // or the network is away
	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), interlock.ErrLost))
	// Output: true
}

// The lease ends after a fixed time; nobody renews it.
func ExampleExpiresAfter() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("seat/12A", interlock.ExpiresAfter(10*time.Minute)).Acquire(ctx)
	fmt.Println("some of ten minutes are left:", lease.Remaining() <= 10*time.Minute && lease.Remaining() > 0)
	fmt.Println(lease.Release())
	// Output:
	// some of ten minutes are left: true
	// <nil>
}

func ExampleLock_Acquire() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	wait, cancel := context.WithTimeout(ctx, time.Minute) // bounds the wait only
	defer cancel()
	lease, err := c.Mutex("report").Acquire(wait)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lease.Err() == nil, "token:", lease.Token() > 0)
	fmt.Println("released:", lease.Release() == nil)
	// Output:
	// held: true token: true
	// released: true
}

func ExampleLock_TryAcquire() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("report").Acquire(ctx)
	defer lease.Release()
	_, err := c.Mutex("report").TryAcquire(ctx)
	fmt.Println(errors.Is(err, interlock.ErrBusy), err)
	// Output: true interlock: acquire report: busy
}

func ExampleLeaseFrom() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	var last uint64 // that the resource has seen
	write := func(ctx context.Context) error {
		token := interlock.LeaseFrom(ctx).Token()
		if token < last {
			return errors.New("somebody was granted the lock after me")
		}
		last = token
		fmt.Println("written")
		return nil
	}
	for range 2 {
		_ = c.Mutex("report").Do(ctx, write)
	}
	// Output:
	// written
	// written
}

func ExampleLock_Held() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	report := c.Mutex("report")
	write := func(ctx context.Context) error {
		lease, held := report.Held(ctx)
		if !held {
			return errors.New("acquire the report first")
		}
		fmt.Println("writing with a token:", lease.Token() > 0)
		return nil
	}
	fmt.Println(write(ctx))
	_ = report.Do(ctx, write)
	// Output:
	// acquire the report first
	// writing with a token: true
}

func ExampleAll() {
	ctx := context.Background()
	eu, us := open(), open() // two backends
	defer eu.Close()
	defer us.Close()

	from, to := eu.Mutex("account/7"), us.Mutex("account/3")
	transfer := interlock.All(from, to).With(interlock.Wait(time.Minute))
	err := transfer.Do(ctx, func(ctx context.Context) error {
		for _, part := range interlock.LeaseFrom(ctx).Parts() {
			fmt.Println(part.Name(), "is held, with a token:", part.Token() > 0)
		}
		return ctx.Err() // ends if one of them is lost
	})
	fmt.Println(err)
	// Output:
	// account/7 is held, with a token: true
	// account/3 is held, with a token: true
	// <nil>
}

func ExampleWait() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("report").Acquire(ctx)
	defer lease.Release()
	_, err := c.Mutex("report", interlock.Wait(time.Millisecond)).Acquire(ctx)
	fmt.Println(errors.Is(err, interlock.ErrBusy))
	// Output: true
}

func ExampleReentrant() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	report := c.Mutex("report", interlock.Reentrant())
	err := report.Do(ctx, func(ctx context.Context) error {
		return report.Do(ctx, func(ctx context.Context) error {
			fmt.Println("the same holder")
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// the same holder
	// <nil>
}

func ExampleReportDeath() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	ledger := c.Mutex("ledger", interlock.ReportDeath())
	func() {
		defer func() { _ = recover() }()
		_ = ledger.Do(ctx, func(ctx context.Context) error { panic("between two writes") })
	}()
	_ = ledger.Do(ctx, func(ctx context.Context) error {
		if lease, _ := ledger.Held(ctx); lease.Inherited() {
			fmt.Println("repair the ledger first")
		}
		return nil
	})
	// Output: repair the ledger first
}

// A permit that is taken by one process and given back by another.
func ExampleClient_Adopt() {
	ctx := context.Background()
	web, worker := openShared("adopt"), openShared("adopt")
	defer web.Close()
	defer worker.Close()

	permit, _ := web.Semaphore("exports", 3, interlock.ExpiresAfter(10*time.Minute)).Acquire(ctx)
	id := permit.ID() // goes to the worker with the job

	adopted, err := worker.Adopt(ctx, "exports", id)
	fmt.Println(err)
	fmt.Println(adopted.Extend(ctx, time.Hour))
	fmt.Println(adopted.Release())
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

// openShared opens one of several clients.
func openShared(name string) *interlock.Client {
	c, err := interlock.Open(context.Background(), "mem:"+name)
	if err != nil {
		panic(err)
	}
	return c
}

func ExampleAtLeast() {
	ctx := context.Background()
	here, there := openShared("nightly"), openShared("nightly")
	defer here.Close()
	defer there.Close()

	// Every machine starts the job at about midnight; one of them runs it.
	job := func(c *interlock.Client) error {
		nightly := c.Mutex("backup", interlock.AtLeast(time.Minute), interlock.Wait(0))
		return nightly.Do(ctx, func(ctx context.Context) error {
			fmt.Println("the backup runs")
			return nil
		})
	}
	fmt.Println(job(here))
	fmt.Println(errors.Is(job(there), interlock.ErrBusy))
	// Output:
	// the backup runs
	// <nil>
	// true
}

func ExampleClient_Semaphore() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	exports := c.Semaphore("exports", 3)
	two, _ := exports.With(interlock.Weight(2)).Acquire(ctx)
	one, _ := exports.Acquire(ctx)
	_, err := exports.TryAcquire(ctx)
	fmt.Println(errors.Is(err, interlock.ErrBusy))
	_ = one.Release()
	_ = two.Release()
	// Output: true
}

func ExampleLease_KeepPermits() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	memory := func(n int64) *interlock.Lock { return c.Semaphore("memory", 32, interlock.Weight(n)) }
	lease, _ := memory(23).Acquire(ctx)
	// load everything; then the rest needs less …
	err := lease.KeepPermits(ctx, lease.Permits()-10) // … so give ten back
	other, busy := memory(19).TryAcquire(ctx)
	fmt.Println(err, lease.Permits(), busy, other.Permits())
	_ = other.Release()
	_ = lease.Release()
	// Output: <nil> 13 <nil> 19
}

func ExampleAdmin_SetPermits() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	exports := c.Semaphore("exports", 1) // what programs say that run already
	one, _ := exports.Acquire(ctx)
	err := c.Admin().SetPermits(ctx, "exports", 2)
	two, busy := exports.TryAcquire(ctx)
	fmt.Println(err, busy)
	_ = one.Release()
	_ = two.Release()
	// Output: <nil> <nil>
}

func ExampleClient_Leases() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("report").Acquire(ctx)
	fmt.Println(len(c.Leases("report")) > 0)
	_ = lease.Release()
	fmt.Println(len(c.Leases("report")) > 0)
	// Output:
	// true
	// false
}

func ExampleLease_Downgrade() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	config := c.RWMutex("config")
	lease, _ := config.Writer().Acquire(ctx)
	// change it …
	_ = lease.Downgrade(ctx) // … and go on reading what was written
	reader, err := config.Reader().TryAcquire(ctx)
	fmt.Println(err)
	_ = reader.Release()
	_ = lease.Release()
	// Output: <nil>
}

func ExampleClient_RWMutex() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	config := c.RWMutex("config")
	one, _ := config.Reader().Acquire(ctx)
	two, _ := config.Reader().Acquire(ctx)
	_, err := config.Writer().TryAcquire(ctx)
	fmt.Println(errors.Is(err, interlock.ErrBusy))
	_ = one.Release()
	_ = two.Release()
	// Output: true
}

func ExampleClient_Striped() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	items := c.Striped("items", 64)
	err := items.For("item-4711").Do(ctx, func(ctx context.Context) error {
		fmt.Println("one of 64 locks is held")
		return nil
	})
	fmt.Println(err)
	// Output:
	// one of 64 locks is held
	// <nil>
}

func ExampleElection_Lead() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	err := c.Election("scheduler").Lead(ctx, "10.0.0.7:8080", func(ctx context.Context) error {
		for m, err := range c.Election("scheduler").Observe(ctx) {
			fmt.Println("the leader is", m.Note, err)
			break
		}
		return nil // resigns
	})
	fmt.Println(err)
	// Output:
	// the leader is 10.0.0.7:8080 <nil>
	// <nil>
}

// The leader says that it is ready, and everybody else asks who leads.
func ExampleElection_SetValue() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	scheduler := c.Election("scheduler")
	err := scheduler.Lead(ctx, "10.0.0.7, starting", func(ctx context.Context) error {
		// load what is to be done …
		if err := scheduler.SetValue(ctx, interlock.LeaseFrom(ctx), "10.0.0.7, ready"); err != nil {
			return err
		}
		leader, err := scheduler.Leader(ctx)
		fmt.Println(leader.Note, err)
		return nil
	})
	fmt.Println(err)
	_, err = scheduler.Leader(ctx)
	fmt.Println(errors.Is(err, interlock.ErrNoLeader), err)
	// Output:
	// 10.0.0.7, ready <nil>
	// <nil>
	// true interlock: find the leader of scheduler: nobody leads
}

func ExampleLatch() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	ready := c.Latch("workers-ready")
	_, _ = ready.Set(ctx, 3)
	for range 3 {
		go func() { _, _ = ready.CountDown(ctx) }()
	}
	fmt.Println(ready.Wait(ctx))
	// Output: <nil>
}

func ExampleBarrier() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	maintenance := c.Barrier("maintenance")
	_ = maintenance.Set(ctx)
	go func() { _ = maintenance.Remove(ctx) }()
	fmt.Println(maintenance.Wait(ctx))
	// Output: <nil>
}

func ExampleDoubleBarrier() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	done := make(chan error)
	for range 3 {
		go func() {
			phase := c.DoubleBarrier("phase", 3)
			lease, err := phase.Enter(ctx) // all three begin together …
			if err == nil {
				err = phase.Leave(ctx, lease) // … and end together
			}
			done <- err
		}()
	}
	for range 3 {
		fmt.Println(<-done)
	}
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

func ExampleValue() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	type limits struct{ PerMinute int }
	v := interlock.NewValue[limits](c, "limits")
	_, _ = v.Set(ctx, limits{PerMinute: 100}, 0) // creates it
	now, err := v.Update(ctx, func(l limits) (limits, error) {
		l.PerMinute *= 2
		return l, nil
	})
	fmt.Println(now.PerMinute, err)
	// Output: 200 <nil>
}

func ExampleAdmin_Queue() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("report", interlock.Note("monthly")).Acquire(ctx)
	defer lease.Release()
	q, err := c.Admin().Queue(ctx, "report")
	fmt.Println(q.Kind, q.Holders[0].Note, len(q.Waiters), err)
	// Output: mutex monthly 0 <nil>
}

func ExampleAdmin_Queues() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("jobs/report", interlock.Note("monthly")).Acquire(ctx)
	defer lease.Release()
	for q, err := range c.Admin().Queues(ctx, "jobs/") {
		fmt.Println(q.Name, q.Holders[0].Note, err)
	}
	// Output: jobs/report monthly <nil>
}

func ExampleAdmin_Follow() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("report").Acquire(ctx)
	for q, err := range c.Admin().Follow(ctx, "report") {
		fmt.Println(len(q.Holders), err)
		if len(q.Holders) == 0 {
			break
		}
		_ = lease.Release()
	}
	// Output:
	// 1 <nil>
	// 0 <nil>
}

func ExampleAdmin_FollowAll() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("jobs/report").Acquire(ctx)
	for all, err := range c.Admin().FollowAll(ctx, "jobs/") {
		fmt.Println(len(all), err)
		if len(all) == 0 {
			break
		}
		_ = lease.Release()
	}
	// Output:
	// 1 <nil>
	// 0 <nil>
}

// A holder that listens gives the lock up when it is asked to.
func ExampleAdmin_Revoke() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	lease, _ := c.Mutex("report").Acquire(ctx)
	go func() { _ = c.Admin().Revoke(ctx, "report", lease.ID()) }()
	<-lease.Revoked()
	fmt.Println(lease.Release())
	// Output: <nil>
}

func ExampleAdmin_Evict() {
	ctx := context.Background()
	c := open()
	defer c.Close()

	err := c.Mutex("report").Do(ctx, func(held context.Context) error {
		lease, _ := c.Mutex("report").Held(held)
		_ = c.Admin().Evict(ctx, "report", lease.ID(), false)
		<-held.Done()
		return nil // now the lock passes on
	})
	fmt.Println(errors.Is(err, interlock.ErrEvicted))
	// Output: true
}

func ExampleObserve() {
	ctx := context.Background()
	c, _ := interlock.Open(ctx, "mem:", interlock.Observe(func(_ context.Context, e interlock.Event) {
		fmt.Println(e.Kind, e.Name)
	}))
	defer c.Close()

	_ = c.Mutex("report").Do(ctx, func(context.Context) error { return nil })
	// Output:
	// acquired report
	// released report
}
