package once_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/once"
)

type receipt struct {
	Order int64 `json:"order"`
}

// An order is written once for each key that the buyer's program has chosen, and each request with
// that key gets the same receipt.
func ExampleTable_Run() {
	table, err := once.NewTable(once.PostgreSQL, once.DefaultTable)
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := once.JSON[receipt]{Table: table}
	_ = func(ctx context.Context, db *sql.DB, buyer, key string, body []byte) (receipt, bool, error) {
		return orders.Run(ctx, db, 5, buyer+"/"+key, func(ctx context.Context, tx *sql.Tx) (r receipt, err error) {
			err = tx.QueryRowContext(ctx, "INSERT INTO orders (buyer) VALUES ($1) RETURNING id", buyer).Scan(&r.Order)
			return r, err
		}, once.Request(body))
	}
}

// The work is done under a lock. What it writes is fenced first, so that nobody who held the lock
// before can write any more. Whoever asks again gets the result, also without the lock.
func ExampleTable_Do() {
	table, err := once.NewTable(once.PostgreSQL, once.DefaultTable)
	if err != nil {
		fmt.Println(err)
		return
	}
	items, err := fence.NewColumn(fence.PostgreSQL, "items", "id", "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = func(ctx context.Context, tx *sql.Tx, lease fence.Grant, item int64, key string) ([]byte, error) {
		answer, _, err := table.Do(ctx, tx, key, func() ([]byte, error) {
			if err := items.Check(ctx, tx, item, lease); err != nil {
				return nil, err
			}
			_, err := tx.ExecContext(ctx, "UPDATE items SET stock = stock - 1 WHERE id = $1", item)
			return []byte("sold"), err
		})
		if err != nil {
			return nil, err // tx has been rolled back
		}
		return answer, tx.Commit()
	}
}
