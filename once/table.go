package once

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/rows"
)

// Table keeps the results in a table of its own, in the database that the work writes to:
//
//	key (primary key), request (a hash), token (64 bits), done, result, created (seconds since 1970)
type Table struct {
	d                           dialect
	create, insert, look, store string
	older, deleteOne            string
}

// NewTable describes the table of the given name, such as [DefaultTable]. The name may be
// qualified: schema.table.
func NewTable(d Dialect, name string) (*Table, error) {
	table, err := d.d.Table(name)
	if err != nil {
		return nil, fmt.Errorf("once: %w", err)
	}
	key, err := d.d.Column("key")
	if err != nil {
		return nil, fmt.Errorf("once: %w", err)
	}
	p := d.d.Param
	return &Table{
		d:      d.d,
		create: d.d.create(table, key),
		insert: fmt.Sprintf("INSERT INTO %s (%s, request, token, done, created) VALUES (%s, %s, %s, 0, %s)%s",
			table, key, p(1), p(2), p(3), d.d.now(), d.d.unlessThere()),
		look:  fmt.Sprintf("SELECT request, token, done, result FROM %s WHERE %s = %s", table, key, p(1)),
		store: fmt.Sprintf("UPDATE %s SET result = %s, done = 1 WHERE %s = %s AND done = 0", table, p(1), key, p(2)),

		older:     fmt.Sprintf("SELECT %s FROM %s WHERE created < %s - %s ORDER BY created, %s LIMIT %d", key, table, d.d.now(), p(1), key, batch),
		deleteOne: fmt.Sprintf("DELETE FROM %s WHERE %s = %s AND created < %s - %s", table, key, p(1), d.d.now(), p(2)),
	}, nil
}

// Create makes the table if it does not exist.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	if err := rows.Create(ctx, db, t.create); err != nil {
		return fmt.Errorf("once: create the table: %w", err)
	}
	return nil
}

// Do returns the result that is stored for the key, and true. If there is none it runs f, stores
// what f returns, and returns it: it counts with the commit of tx.
//
// f writes in tx. It must return every error of tx, must not end tx, and must not ask with the
// same key. Its own error is returned as it is.
//
// A key is a text of 1 to [MaxKey] bytes of UTF-8 without a zero byte. A result has at most
// [MaxResult] bytes; nil and an empty one are the same. If Do returns an error, tx has been rolled
// back.
func (t *Table) Do(ctx context.Context, tx *sql.Tx, key string, f func() ([]byte, error), opts ...Option) (result []byte, repeated bool, err error) {
	return t.DoIn(ctx, rows.Tx(tx), key, f, opts...)
}

// DoIn is [Table.Do] in a transaction of another client of the database.
func (t *Table) DoIn(ctx context.Context, tx Conn, key string, f func() ([]byte, error), opts ...Option) (result []byte, repeated bool, err error) {
	done := false
	defer func() {
		if !done { // f may have panicked
			tx.End()
		}
	}()
	c, token, err := check(key, opts)
	if err != nil {
		return nil, false, failed(key, err)
	}
	mine, found, err := t.claim(ctx, tx, key, c, token)
	if err != nil {
		return nil, false, t.fail(ctx, key, err)
	}
	if !mine {
		result, err = found.answer(key, c, token)
		if err != nil {
			return nil, false, failed(key, err)
		}
		done = true
		return result, true, nil
	}
	result, err = f()
	if err != nil {
		return nil, false, err
	}
	if err := t.finish(ctx, tx, key, result); err != nil {
		return nil, false, t.fail(ctx, key, err)
	}
	done = true
	return result, false, nil
}

// Lookup returns the result that is stored for the key, and whether there is one, as q sees it. It
// does no work, waits for nobody, and ends no transaction. Its errors are those of Do.
func (t *Table) Lookup(ctx context.Context, q Queryer, key string, opts ...Option) (result []byte, found bool, err error) {
	c, token, err := check(key, opts)
	if err != nil {
		return nil, false, failed(key, err)
	}
	r, err := read(ctx, rows.SQL{Q: q}, t.look, key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, t.fail(ctx, key, err)
	}
	if result, err = r.answer(key, c, token); err != nil {
		return nil, false, failed(key, err)
	}
	return result, true, nil
}

// check looks at what the caller gave. The token is NULL without a grant.
func check(key string, opts []Option) (c config, token sql.NullInt64, err error) {
	for _, o := range opts {
		o(&c)
	}
	if err := rows.CheckText("key", key, MaxKey); err != nil {
		return c, token, driver.Invalid(err)
	}
	if c.under {
		t, err := fence.TokenOf(c.grant)
		if err != nil {
			return c, token, err
		}
		token = sql.NullInt64{Int64: int64(t), Valid: true}
	}
	return c, token, nil
}

// row is what is stored for a key.
type row struct {
	request []byte
	token   sql.NullInt64
	done    int64 // 0 until it has a result
	result  []byte
}

// claims is how often claim tries. The row can only be missing if a sweep or a rollback has come
// between the two statements.
const claims = 3

// claim makes the row of the key, and reports whether it has. Whoever has made it keeps others
// out until tx ends. If the row was there already, claim reads it.
func (t *Table) claim(ctx context.Context, tx Conn, key string, c config, token sql.NullInt64) (mine bool, found row, err error) {
	for range claims {
		switch mine, err := t.add(ctx, tx, key, c, token); {
		case err != nil || mine:
			return mine, row{}, err
		}
		found, err := read(ctx, tx, t.look+t.d.latest(), key)
		if !errors.Is(err, sql.ErrNoRows) {
			return false, found, err
		}
	}
	return false, row{}, fmt.Errorf("%w: the row of the key comes and goes", ErrConflict)
}

func read(ctx context.Context, q Conn, query, key string) (found row, err error) {
	err = q.Row(ctx, query, []any{key}, &found.request, &found.token, &found.done, &found.result)
	return found, err
}

// add inserts the row, unless there is one. It waits for a transaction that has inserted it.
func (t *Table) add(ctx context.Context, tx Conn, key string, c config, token sql.NullInt64) (bool, error) {
	var request any // NULL
	if c.request != nil {
		request = c.request
	}
	n, err := tx.Exec(ctx, t.insert, key, request, token)
	if rows.IsDuplicate(err) { // on MySQL only this statement has failed
		return false, nil
	}
	return n == 1, err
}

// answer is the stored result, if this call may have it.
func (r row) answer(key string, c config, token sql.NullInt64) ([]byte, error) {
	switch {
	case r.request != nil && c.request != nil && !bytes.Equal(r.request, c.request):
		return nil, ErrMismatch
	case r.token.Valid && token.Valid && token.Int64 < r.token.Int64:
		return nil, &fence.StaleError{Resource: key, Token: uint64(token.Int64), Seen: uint64(r.token.Int64)}
	case r.done == 0:
		return nil, errors.New("its work has begun and has no result: the function must not ask with the same key, nor end the transaction")
	}
	return r.result, nil
}

// finish stores the result. The row that claim has made is gone if the database has ended the
// transaction under f, and f has not said so.
func (t *Table) finish(ctx context.Context, tx Conn, key string, result []byte) error {
	if len(result) > MaxResult {
		return driver.Invalid(fmt.Errorf("the result has %d bytes, %d are allowed", len(result), MaxResult))
	}
	n, err := tx.Exec(ctx, t.store, result, key)
	if err == nil && n != 1 {
		err = errors.New("the transaction ended before its function returned: it must return every error, and must not end the transaction")
	}
	return err
}

// fail says what an error of the database means. When a context ends, drivers have many ways to
// say that their connection is gone.
func (t *Table) fail(ctx context.Context, key string, err error) error {
	err = rows.Explain(t.d, err)
	if ended := ctx.Err(); ended != nil && !rows.Retryable(err) && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return failed(key, err)
}

func failed(key string, err error) error { return fmt.Errorf("once %q: %w", key, err) }

// fingerprint is a hash of the parts, of each with its length.
func fingerprint(parts [][]byte) []byte {
	h := sha256.New()
	for _, part := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash takes everything
		h.Write(part)
	}
	return h.Sum(nil)
}
