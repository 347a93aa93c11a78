// Nightly is a job that cron starts on several machines and that runs on one of
// them. Their clocks differ by some seconds, so the lock stays taken for a
// while even if the job is done at once; the latecomers find it busy.
//
//	go run ./nightly sqlite:locks.db
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

// spread is more than the clocks of the machines ever differ.
const spread = 10 * time.Minute

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: nightly URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ran, err := nightly(ctx, os.Args[1], report)
	if err != nil {
		log.Fatal(err)
	}
	if !ran {
		fmt.Println("nightly: another machine does it")
	}
}

// nightly runs the job if no other machine has begun it, and reports whether it
// did.
func nightly(ctx context.Context, url string, job func(context.Context) error) (ran bool, err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()

	lock := locks.Mutex("nightly/report", interlock.Wait(0), interlock.AtLeast(spread))
	err = lock.Do(ctx, func(ctx context.Context) error {
		ran = true
		return job(ctx)
	})
	if errors.Is(err, interlock.ErrBusy) && !ran {
		err = nil
	}
	return ran, err
}

// report is the job. Its context ends when the lock is lost: then another
// machine may begin, and this one has to stop.
func report(ctx context.Context) error {
	for page := 1; page <= 3; page++ {
		select {
		case <-time.After(100 * time.Millisecond):
			fmt.Println("nightly: page", page)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
