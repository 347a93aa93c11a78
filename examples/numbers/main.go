// Numbers gives order numbers to several processes: no number twice, and none left out as long as
// each that was given is used. A shared value counts, so that no lock is needed.
//
//	go run ./numbers sqlite:locks.db 3    # prints the next three numbers
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: numbers URL HOW-MANY")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, count string) (err error) {
	n, err := strconv.ParseInt(count, 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of numbers", count)
	}
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	first, err := next(ctx, locks, n)
	if err != nil {
		return err
	}
	for i := range n {
		fmt.Println(first + i)
	}
	return nil
}

// next takes n numbers that follow each other, and returns the first. After an error they may be
// taken and given to nobody: then they are left out, but none is given twice.
func next(ctx context.Context, locks *interlock.Client, n int64) (first int64, err error) {
	last, err := interlock.NewValue[int64](locks, "orders/number").Update(ctx, func(last int64) (int64, error) {
		return last + n, nil // may be called again, if another was faster
	})
	return last - n + 1, err
}
