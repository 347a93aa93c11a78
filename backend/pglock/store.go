package pglock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/internal/sqlqueue"
)

// store is the exchanges with one database: each is a call of one function.
type store struct {
	*config
	pool    *pool
	channel string
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	calls   map[string]string // the SQL of each function

	peer
	silent   bool // news cannot be received
	crowds   crowds
	mode     pgx.QueryExecMode
	unlogged bool
}

func newStore(pool *pool, c *config) *store {
	s := &store{config: c, pool: pool, channel: sqlqueue.NewChannel(), calls: map[string]string{}, mode: pool.Config().ConnConfig.DefaultQueryExecMode}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for name, types := range map[string][]string{
		"begin":  {"uuid", "bigint", "text", "text"},
		"end":    {"uuid"},
		"join":   {"text", "text", "bigint", "uuid", "bigint", "uuid", "text", "bytea", "bigint", "boolean", "boolean", "boolean"},
		"leave":  {"text", "uuid", "uuid", "boolean", "bigint", "boolean"},
		"shrink": {"text", "uuid", "uuid", "bigint"},
		"keep":   {"text", "uuid", "uuid", "text", "bigint"},
		"settle": {"text"},
		"ask":    {"text", "uuid", "text"},
		"raise":  {"text", "bigint"},
		"look":   {"uuid", "text[]", "uuid[]"},
		"renew":  {"uuid", "text[]", "uuid[]"},
		"strand": {"uuid", "text[]", "uuid[]", "text[]", "uuid[]"},
		"names":  {"text", "text"},
		"swap":   {"uuid", "text", "bigint", "boolean", "bytea"},
		"tidy":   {},
		"load":   {"text", "text"},
		"read":   {"text[]", "text"},
	} {
		s.calls[name] = c.schema.call(name, types)
	}
	return s
}

// call is the SQL that calls a function. The types are said, since a pooler may not
// let the server be asked for them.
func (s Schema) call(name string, types []string) string {
	args := ""
	for i, t := range types {
		if i > 0 {
			args += ", "
		}
		args += "$" + strconv.Itoa(i+1) + "::" + t
	}
	call := s.name(name) + "(" + args + ")"
	if name == "load" || name == "read" {
		return "SELECT * FROM " + call
	}
	return "SELECT " + call
}

// query calls a function that returns rows.
func (s *store) query(ctx context.Context, name string, args ...any) (pgx.Rows, error) {
	return s.pool.Query(ctx, s.calls[name], append([]any{s.mode}, args...)...)
}

// numbers calls a function that returns a code and more.
func (s *store) numbers(ctx context.Context, name string, least int, args ...any) ([]int64, error) {
	var got []int64
	if err := s.pool.QueryRow(ctx, s.calls[name], append([]any{s.mode}, args...)...).Scan(&got); err != nil {
		return nil, err
	}
	if len(got) == 0 || got[0] >= 0 && len(got) < least {
		return nil, fmt.Errorf("postgres: %s has answered %d numbers", name, len(got))
	}
	if got[0] < 0 {
		return got, sqlqueue.Verdict(got[0])
	}
	return got, nil
}

// rows calls a function that returns a list.
func rows[T any](ctx context.Context, s *store, name string, args ...any) ([]T, error) {
	return rowsOf[T](ctx, s, s.pool, name, args...)
}

func rowsOf[T any](ctx context.Context, s *store, on connection, name string, args ...any) ([]T, error) {
	r, err := on.Query(ctx, s.calls[name], append([]any{s.mode}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(r, pgx.RowTo[T])
}

type connection interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Close leaves a pool open that others use.
func (s *store) Close() {
	s.cancel()
	s.pool.leave()
}
