// Permit takes one of three permits for ten minutes, and another process gives it back: an upload
// that one program begins and another one finishes. A permit that nobody gives back ends by itself.
//
//	go run ./permit take sqlite:locks.db          # prints an ID
//	go run ./permit back sqlite:locks.db ID
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

const name, permits, limit = "uploads", 3, 10 * time.Minute

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "take":
		var id string
		if id, err = take(context.Background(), args[1]); err == nil {
			fmt.Println(id)
		}
	case len(args) == 3 && args[0] == "back":
		err = back(context.Background(), args[1], args[2])
	default:
		log.Fatal("usage: permit take URL, or permit back URL ID")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// take takes a permit and returns the ID of its lease, which outlives this process.
func take(ctx context.Context, url string) (id string, err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	lease, err := locks.Semaphore(name, permits, interlock.ExpiresAfter(limit)).TryAcquire(ctx)
	if err != nil {
		return "", err // interlock.ErrBusy: all are taken
	}
	return lease.ID(), nil
}

// back gives a permit back. One that has ended is interlock.ErrLost.
func back(ctx context.Context, url, id string) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	lease, err := locks.Adopt(ctx, name, id)
	if err != nil {
		return err
	}
	return lease.Release()
}
