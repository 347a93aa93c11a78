package memlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

// What does a job do whose lock is lost in the middle of its work? It must stop,
// and undo or leave alone what it has begun.
func ExampleFaults_Expire() {
	ctx := context.Background()
	d := memlock.New()
	client, err := interlock.New(ctx, d)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	written := 0
	job := func(ctx context.Context) error {
		for part := range 3 {
			if part == 1 {
				d.Faults().Expire() // the stop point
				<-ctx.Done()        // a real job is in the middle of something here
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			written++
		}
		return nil
	}
	err = client.Mutex("report").Do(ctx, job)
	fmt.Println("lost:", errors.Is(err, interlock.ErrLost), "parts written:", written)
	// Output: lost: true parts written: 1
}

// A reply that is lost leaves open whether the lock was acquired. It is, and
// only once.
func ExamplePoint_Fail() {
	ctx := context.Background()
	d := memlock.New()
	client, err := interlock.New(ctx, d)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	d.Faults().After("Join", 1).Fail()
	lease, err := client.Mutex("report").Acquire(ctx)
	if err != nil {
		panic(err)
	}
	for q, err := range client.Admin().Queues(ctx, "") {
		fmt.Println(q.Name, "holders:", len(q.Holders), "waiters:", len(q.Waiters), err)
	}
	fmt.Println("released:", lease.Release(), "faults to come:", d.Faults().Waiting())
	// Output:
	// report holders: 1 waiters: 0 <nil>
	// released: <nil> faults to come: 0
}

// A request that is long on its way arrives after its caller has given up. It
// must not take the lock for nobody.
func ExamplePoint_Hang() {
	world := memlock.NewWorld()
	d := world.Driver()
	slow, err := interlock.New(context.Background(), d)
	if err != nil {
		panic(err)
	}
	defer slow.Close()
	other, err := interlock.New(context.Background(), world.Driver())
	if err != nil {
		panic(err)
	}
	defer other.Close()

	late := d.Faults().Before("Join", 1).Hang()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-late.Reached()
		cancel()
	}()
	_, err = slow.Mutex("report").Acquire(ctx)
	fmt.Println("given up:", errors.Is(err, context.Canceled))
	late.Deliver()

	lease, err := other.Mutex("report").Acquire(context.Background())
	fmt.Println("acquired by another client:", err == nil)
	fmt.Println("released:", lease.Release())
	// Output:
	// given up: true
	// acquired by another client: true
	// released: <nil>
}
