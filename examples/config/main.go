// Config changes a configuration file alone, and goes on to read it beside others: the writer's
// lock becomes a reader's, and no other writer comes in between.
//
//	go run ./config sqlite:locks.db config.txt "port = 8080"
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: config URL FILE TEXT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1], os.Args[2], os.Args[3], func(text string) { fmt.Println("in use:", text) })
	if err != nil {
		log.Fatal(err)
	}
}

// run writes the file, and uses what it has written while nobody can change it.
func run(ctx context.Context, url, file, text string, use func(text string)) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	return locks.RWMutex("config").Writer().Do(ctx, func(ctx context.Context) error {
		// Programs that take no lock never see a half: the file is replaced as a whole.
		if err := os.WriteFile(file+".next", []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(file+".next", file); err != nil {
			return err
		}
		// From here on others read, too; writers wait until Do returns.
		if err := interlock.LeaseFrom(ctx).Downgrade(ctx); err != nil {
			return err
		}
		got, err := os.ReadFile(file)
		if err == nil {
			use(string(got))
		}
		return err
	})
}
