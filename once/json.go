package once

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// JSON is a [Table] for results of type T, which are stored as JSON. T must be the same value
// again when it was encoded and decoded.
type JSON[T any] struct{ Table *Table }

// Do is [Table.Do].
func (j JSON[T]) Do(ctx context.Context, tx *sql.Tx, key string, f func() (T, error), opts ...Option) (T, bool, error) {
	return decode[T](key)(j.Table.Do(ctx, tx, key, func() ([]byte, error) { return encode(f()) }, opts...))
}

// DoIn is [Table.DoIn].
func (j JSON[T]) DoIn(ctx context.Context, tx Conn, key string, f func() (T, error), opts ...Option) (T, bool, error) {
	return decode[T](key)(j.Table.DoIn(ctx, tx, key, func() ([]byte, error) { return encode(f()) }, opts...))
}

// Run is [Table.Run].
func (j JSON[T]) Run(ctx context.Context, db Beginner, calls int, key string, f func(ctx context.Context, tx *sql.Tx) (T, error), opts ...Option) (T, bool, error) {
	return decode[T](key)(j.Table.Run(ctx, db, calls, key, func(ctx context.Context, tx *sql.Tx) ([]byte, error) { return encode(f(ctx, tx)) }, opts...))
}

func encode[T any](result T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// decode reads a result. One that this program cannot read was stored by another version of it:
// the work is done all the same.
func decode[T any](key string) func(text []byte, repeated bool, err error) (T, bool, error) {
	return func(text []byte, repeated bool, err error) (result T, _ bool, _ error) {
		if err != nil {
			return result, false, err
		}
		if err := json.Unmarshal(text, &result); err != nil {
			return result, repeated, failed(key, fmt.Errorf("the work is done, but its result cannot be read: %w", err))
		}
		return result, repeated, nil
	}
}
