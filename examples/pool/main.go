// Pool is a pool of workers, in several processes, whose tasks are about customers: tasks of one
// customer are done one at a time, those of others beside them. A striped lock has a fixed number of
// locks for any number of customers; two that share a stripe wait for each other without need.
//
//	go run ./pool sqlite:locks.db    # in two or three terminals
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: pool URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	tasks := make(chan task)
	go func() {
		defer close(tasks)
		for i := range 20 {
			tasks <- task{customer: fmt.Sprint("customer ", i%5), number: i}
		}
	}()
	if err := run(ctx, os.Args[1], 4, tasks, work); err != nil {
		log.Fatal(err)
	}
}

type task struct {
	customer string
	number   int
}

// stripes is the same in all programs that use the lock.
const stripes = 64

// run does the tasks with so many workers, until there are no more or one has failed.
func run(ctx context.Context, url string, workers int, tasks <-chan task, work func(context.Context, task) error) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	customers := locks.Striped("customers", stripes)
	pool, ctx := errgroup.WithContext(ctx)
	for range workers {
		pool.Go(func() error {
			for t := range tasks {
				err := customers.For(t.customer).Do(ctx, func(ctx context.Context) error { return work(ctx, t) })
				if err != nil {
					return fmt.Errorf("task %d: %w", t.number, err)
				}
			}
			return nil
		})
	}
	return pool.Wait()
}

func work(ctx context.Context, t task) error {
	fmt.Println("task", t.number, "for", t.customer)
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
