// Package pgxrow is package rowlock for programs that use pgx without
// database/sql: it locks rows and names, and writes rows back by their versions,
// inside the caller's own pgx transaction. What the calls promise, and what their
// errors mean, is said there; the options, the errors and [rowlock.Columns] are
// those of rowlock.
//
//	import (
//		"github.com/jackc/pgx/v5"
//		"github.com/jackc/pgx/v5/pgxpool"
//	)
//
//	pool, err := pgxpool.New(ctx, "postgres://host/shop")
//	…
//	items, err := pgxrow.NewTable("items", "id")
//	…
//	err = items.Do(ctx, pool, 10, func(ctx context.Context, tx pgx.Tx) error {
//		var stock int
//		if err := items.LockAndRead(ctx, tx, id, rowlock.Columns{"stock": &stock}, rowlock.Wait(time.Second)); err != nil {
//			return err
//		}
//		_, err := tx.Exec(ctx, "UPDATE items SET stock = $1 WHERE id = $2", stock-1, id)
//		return err
//	})
//
// A pgx.Tx that was begun inside another one is a savepoint: what it has locked
// stays locked until the outermost transaction ends, unless it is rolled back.
//
// When the context of a call ends while it waits, pgx closes the connection, and
// the server notices: the transaction and its place in the line are gone.
package pgxrow

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/internal/rows"
	"github.com/interlock-go/interlock/rowlock"
)

// Beginner is a *pgxpool.Pool, a *pgxpool.Conn or a *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Queryer is a Beginner or a pgx.Tx.
type Queryer interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// Execer is a Beginner or a pgx.Tx.
type Execer interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
}

// conn is what package rows needs of pgx.
type conn struct {
	q Queryer
	e Execer
}

func (c conn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := c.e.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

// Row relies on pgx.ErrNoRows being a sql.ErrNoRows too.
func (c conn) Row(ctx context.Context, query string, args []any, into ...any) error {
	return c.q.QueryRow(ctx, query, args...).Scan(into...)
}

// End gives the server a moment to answer; pgx closes the connection then.
func (c conn) End() {
	if tx, ok := c.e.(pgx.Tx); ok {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}
}

// Conn is a transaction for what packages fence and once do in one: fence.Table.CheckIn, fence.Column.CheckIn
// and once.Table.DoIn. Their tables are made and swept over a *sql.DB, such as stdlib.OpenDBFromPool makes of a pool.
func Conn(tx pgx.Tx) rows.Conn { return conn{tx, tx} }

func configOf(opts []rowlock.Option) rows.Config {
	c := rows.Config{Wait: rows.Forever}
	for _, o := range opts {
		o(&c)
	}
	return c
}

func rowsKey(key any) any {
	if parts, ok := key.(rowlock.Key); ok {
		return rows.Key(parts)
	}
	return key
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("pgxrow: %w", err)
	}
	return nil
}

func begin(ctx context.Context, db Beginner) (pgx.Tx, error) {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("pgxrow: begin: %w", err)
	}
	return tx, nil
}

func do(ctx context.Context, db Beginner, calls int, f func(context.Context, pgx.Tx) error) error {
	return retry(ctx, calls, func(ctx context.Context) error {
		tx, err := begin(ctx, db)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx)) // nothing after a commit
		if err := f(ctx, tx); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}

func retry(ctx context.Context, calls int, f func(context.Context) error) error {
	return rows.Retry(ctx, rows.PostgreSQL, calls, f)
}
