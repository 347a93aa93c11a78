package pgxrow_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/once"
	"github.com/interlock-go/interlock/rowlock/pgxrow"
)

// Promise: in a transaction of pgx a late token is refused, by a table of tokens and by a column, until that of the
// commit; a transaction that is rolled back leaves none.
func TestATransactionOfPgxRefusesAStaleToken(t *testing.T) {
	pool := newPool(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	table, err := fence.NewTable(fence.PostgreSQL, "pgx_tokens")
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	must(t, pool, "ALTER TABLE items ADD token bigint")
	column, err := fence.NewColumn(fence.PostgreSQL, "items", "id", "token")
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]func(tx fence.Conn, token fence.Token) error{
		"table":  func(tx fence.Conn, token fence.Token) error { return table.CheckIn(t.Context(), tx, "items/1", token) },
		"column": func(tx fence.Conn, token fence.Token) error { return column.CheckIn(t.Context(), tx, 1, token) },
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			in := func(token fence.Token) error {
				return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return check(pgxrow.Conn(tx), token) })
			}
			undone := begin(t, pool)
			if err := errors.Join(check(pgxrow.Conn(undone), 99), undone.Rollback(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(in(7), in(7), in(8)); err != nil {
				t.Fatal(err)
			}
			var stale *fence.StaleError
			if err := in(7); !errors.As(err, &stale) || stale.Token != 7 || stale.Seen != 8 {
				t.Errorf("%v, want token 7 refused since 8 was seen", err)
			}
		})
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return column.CheckIn(t.Context(), pgxrow.Conn(tx), 42, fence.Token(1)) }); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("%v, want no row", err)
	}
}

// Promise: work in transactions of pgx takes effect once for each key, however many ask at a time; one that fails is
// rolled back, with what it has written, and can be asked for again.
func TestWorkInTransactionsOfPgxTakesEffectOnce(t *testing.T) {
	pool := newPool(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	orders, err := once.NewTable(once.PostgreSQL, "pgx_once")
	if err != nil {
		t.Fatal(err)
	}
	if err := orders.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	sell := func(pool *pgxpool.Pool, fail error) (result []byte, repeated bool, err error) {
		tx := begin(t, pool)
		result, repeated, err = orders.DoIn(t.Context(), pgxrow.Conn(tx), "order-1", func() ([]byte, error) {
			_, err := tx.Exec(t.Context(), "UPDATE items SET stock = stock - 1 WHERE id = 1")
			return []byte("sold"), errors.Join(err, fail)
		}, once.Request([]byte("one piece")))
		if committed := tx.Commit(t.Context()); err != nil && !errors.Is(committed, pgx.ErrTxClosed) {
			t.Errorf("after %v the commit is %v, want it closed", err, committed)
		}
		return result, repeated, err
	}
	broken := errors.New("broken")
	if _, _, err := sell(pool, broken); !errors.Is(err, broken) {
		t.Fatalf("%v, want the error of the work", err)
	}
	var all sync.WaitGroup
	var first atomic.Int32
	for range 8 {
		all.Go(func() {
			result, repeated, err := sell(pool, nil)
			if err != nil || string(result) != "sold" {
				t.Errorf("%q, %v", result, err)
			}
			if !repeated {
				first.Add(1)
			}
		})
	}
	all.Wait()
	if n, left := first.Load(), number(t, pool, "SELECT stock FROM items WHERE id = 1"); n != 1 || left != 99 {
		t.Errorf("%d calls did the work, %d pieces are left, want 1 and 99", n, left)
	}
	tx := begin(t, pool)
	_, _, err = orders.DoIn(context.Background(), pgxrow.Conn(tx), "order-1", func() ([]byte, error) { return nil, nil }, once.Request([]byte("two pieces")))
	if !errors.Is(err, once.ErrMismatch) {
		t.Errorf("%v, want the other request refused", err)
	}
}
