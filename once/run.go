package once

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/internal/rows"
)

// ErrUnknown says that a commit has failed, or its reply was lost, and that no later try has found
// out whether the work counts. Ask again with the same key.
var ErrUnknown = errors.New("whether the work was committed is not known")

// Run is [Table.Do] in a transaction of its own, which it begins and commits. f gets the context
// and the transaction.
//
// It begins again, up to so many calls in all, after ErrBusy, ErrConflict, ErrDeadlock and the
// database's own errors that mean the same, and after a transaction that could not be begun or
// committed. If only the reply of the commit was lost, the next try finds the result: then
// repeated is true, though f has run here. Before each further call it pauses, for a random time
// of up to 1, 2, 4 … 100 milliseconds. It ends with the last error, or when ctx ends.
//
// f must do nothing outside of the transaction that cannot be done twice.
func (t *Table) Run(ctx context.Context, db Beginner, calls int, key string, f func(ctx context.Context, tx *sql.Tx) ([]byte, error), opts ...Option) (result []byte, repeated bool, err error) {
	open := false // a commit whose outcome is not known
	err = rows.RetryIf(ctx, calls, again, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return &passing{t.fail(ctx, key, fmt.Errorf("begin: %w", err))}
		}
		result, repeated, err = t.Do(ctx, tx, key, func() ([]byte, error) { return f(ctx, tx) }, opts...)
		if err != nil {
			return rows.Explain(t.d, err)
		}
		if err = tx.Commit(); err == nil {
			return nil
		}
		err = t.fail(ctx, key, fmt.Errorf("commit: %w", err))
		if rows.Retryable(err) || rows.IsRefused(err) {
			return err
		}
		open = true
		return &passing{err}
	})
	switch {
	case err == nil:
		return result, repeated, nil
	case open:
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil, false, err
}

// passing is an error of the connection, after which the next transaction may succeed.
type passing struct{ error }

func (p *passing) Unwrap() error { return p.error }

func again(err error) bool {
	var p *passing
	return rows.Retryable(err) || errors.As(err, &p)
}
