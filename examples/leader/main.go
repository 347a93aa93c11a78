// Leader is a service of which several copies run and one does the work. When
// it dies, or is cut off, the copy that has waited longest takes over.
//
//	go run ./leader sqlite:locks.db     # in two or three terminals
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: leader URL")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	name := fmt.Sprintf("process %d", os.Getpid())
	if err := serve(ctx, os.Args[1], name, func(step int) { fmt.Println(name, "leads: step", step) }); err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
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
