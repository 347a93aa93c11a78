package pgxrow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/rowlock"
	"github.com/interlock-go/interlock/rowlock/pgxrow"
)

func examplePool(ctx context.Context) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		log.Fatal(err)
	}
	_, err = pool.Exec(ctx, `DROP TABLE IF EXISTS seats;
		CREATE TABLE seats (id integer PRIMARY KEY, buyer text, version bigint NOT NULL DEFAULT 1);
		INSERT INTO seats (id) SELECT generate_series(1, 5)`)
	if err != nil {
		log.Fatal(err)
	}
	return pool
}

// A row is locked, read and changed in one transaction; whoever else wants it
// waits for two seconds at most.
func ExampleTable_LockAndRead() {
	ctx := context.Background()
	pool := examplePool(ctx)
	defer pool.Close()
	seats, err := pgxrow.NewTable("seats", "id")
	if err != nil {
		log.Fatal(err)
	}
	buy := func(seat int, buyer string) error {
		return seats.Do(ctx, pool, 3, func(ctx context.Context, tx pgx.Tx) error {
			var taken *string
			err := seats.LockAndRead(ctx, tx, seat, rowlock.Columns{"buyer": &taken}, rowlock.Wait(2*time.Second))
			if err != nil {
				return err
			}
			if taken != nil {
				return fmt.Errorf("seat %d belongs to %s", seat, *taken)
			}
			_, err = tx.Exec(ctx, "UPDATE seats SET buyer = $1 WHERE id = $2", buyer, seat)
			return err
		})
	}
	fmt.Println(buy(3, "Ada"))
	fmt.Println(buy(3, "Bob"))
	// Output:
	// <nil>
	// seat 3 belongs to Ada
}

// Two buyers look for seats at the same time. Neither waits for the other.
func ExampleTable_LockFree() {
	ctx := context.Background()
	pool := examplePool(ctx)
	defer pool.Close()
	seats, err := pgxrow.NewTable("seats", "id")
	if err != nil {
		log.Fatal(err)
	}
	all := []any{1, 2, 3, 4, 5}
	for range 3 {
		tx, err := seats.Begin(ctx, pool)
		if err != nil {
			log.Fatal(err)
		}
		defer tx.Rollback(ctx)
		got, err := seats.LockFree(ctx, tx, 2, all)
		fmt.Println(got, err)
	}
	// Output:
	// [1 2] <nil>
	// [3 4] <nil>
	// [5] <nil>
}

// A row is read, and written back if nobody else has changed it meanwhile.
func ExampleVersioned() {
	ctx := context.Background()
	pool := examplePool(ctx)
	defer pool.Close()
	table, err := pgxrow.NewTable("seats", "id")
	if err != nil {
		log.Fatal(err)
	}
	seats, err := pgxrow.NewVersioned(table, "version")
	if err != nil {
		log.Fatal(err)
	}
	version, err := seats.Read(ctx, pool, 1, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(seats.Write(ctx, pool, 1, version, rowlock.Columns{"buyer": "Ada"}))
	err = seats.Write(ctx, pool, 1, version, rowlock.Columns{"buyer": "Bob"})
	fmt.Println(errors.Is(err, rowlock.ErrConflict), err)
	// Output:
	// <nil>
	// true pgxrow: write seats/1: row changed: version 1 does not stand any more
}

// A name is locked for what is no row.
func ExampleNames() {
	ctx := context.Background()
	pool := examplePool(ctx)
	defer pool.Close()
	names, err := pgxrow.NewNames(rowlock.DefaultNames)
	if err != nil {
		log.Fatal(err)
	}
	err = names.Do(ctx, pool, 3, func(ctx context.Context, tx pgx.Tx) error {
		if err := names.Lock(ctx, tx, "nightly report", rowlock.Wait(0)); err != nil {
			return err
		}
		fmt.Println("nobody else writes the report")
		return nil
	})
	fmt.Println(err)
	// Output:
	// nobody else writes the report
	// <nil>
}
