// Leader is a service that runs in several copies. One of them does the work. When
// it dies, or is cut off, the copy that has waited longest takes over.
//
//	go run ./leader sqlite:locks.db            # in two or three terminals
//	go run ./leader sqlite:locks.db observe    # prints who leads
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
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

func main() {
	args := os.Args[1:]
	if len(args) != 1 && (len(args) != 2 || args[1] != "observe") {
		log.Fatal("usage: leader URL [observe]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(args) == 2 {
		err = observe(ctx, args[0], func(leader string) { fmt.Printf("leader: %q\n", leader) })
	} else {
		name := fmt.Sprintf("process %d", os.Getpid())
		err = serve(ctx, args[0], name, func(step int) { fmt.Println(name, "leads: step", step) })
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve campaigns, and works whenever it leads, until ctx ends.
func serve(ctx context.Context, url, name string, work func(step int)) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()

	err = locks.Election("service").Lead(ctx, name, func(leads context.Context) error {
		// leads ends with ctx, and when the leadership is lost. A step that can
		// take long has to watch it as well.
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for step := 1; ; step++ {
			work(step)
			select {
			case <-tick.C:
			case <-leads.Done():
				return context.Cause(leads)
			}
		}
	})
	if ctx.Err() != nil {
		return nil // asked to stop: it has resigned
	}
	return err
}

// observe tells who leads, "" for nobody, now and after every change, until ctx ends. An observer
// is no candidate.
func observe(ctx context.Context, url string, tell func(leader string)) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	for leader, err := range locks.Election("service").Observe(ctx) {
		if err != nil {
			return err
		}
		tell(string(leader.Note))
	}
	return nil
}
