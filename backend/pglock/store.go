package pglock

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

// store is the exchanges with one database: each is a call of one function.
type store struct {
	*config
	pool    *pool
	channel string
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	calls   map[string]string // the SQL of each function

	inline   bool // connections say where functions are, and how to plan
	silent   bool // news cannot be received
	crowds   crowds
	mode     pgx.QueryExecMode
	unlogged atomic.Bool
}

func newStore(pool *pool, c *config) *store {
	s := &store{config: c, pool: pool, channel: exchange.NewMailbox(), calls: map[string]string{}, mode: pool.Config().ConnConfig.DefaultQueryExecMode}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for name, types := range map[string][]string{
		"begin":    {"uuid", "bigint", "text", "text"},
		"end":      {"uuid"},
		"join":     {"text", "text", "bigint", "uuid", "bigint", "uuid", "text", "bytea", "bigint", "boolean", "boolean", "boolean"},
		"leave":    {"text", "uuid", "uuid", "boolean", "bigint", "boolean"},
		"joins":    {"text[]", "text[]", "bigint[]", "uuid[]", "bigint[]", "uuid[]", "bytea[]"},
		"leaves":   {"text[]", "uuid[]", "uuid[]", "boolean[]"},
		"withdraw": {"text", "uuid", "uuid[]", "boolean"},
		"shrink":   {"text", "uuid", "uuid", "bigint"},
		"keep":     {"text", "uuid", "uuid", "text", "bigint"},
		"settle":   {"text"},
		"ask":      {"text", "uuid", "text"},
		"raise":    {"text", "bigint"},
		"resize":   {"text", "bigint"},
		"look":     {"uuid", "text[]", "uuid[]"},
		"renew":    {"uuid", "text[]", "uuid[]"},
		"tickets":  {"uuid"},
		"strand":   {"uuid", "text[]", "uuid[]", "text[]", "uuid[]"},
		"names":    {"text", "text"},
		"swap":     {"uuid", "text", "bigint", "boolean", "bytea"},
		"tidy":     {},
		"confirm":  {},
		"load":     {"text", "text"},
		"read":     {"text[]", "text"},
	} {
		s.calls[name] = c.schema.call(name, types)
	}
	s.calls["take"] = c.schema.short("UPDATE @queue r SET kind = p_kind", "(r.last + r.offset) * CASE WHEN r.unclean THEN -1 ELSE 1 END",
		"p_queue text", "p_kind text", "p_capacity bigint", "p_id uuid", "p_units bigint", "p_session uuid", "p_note bytea")
	s.calls["drop"] = c.schema.short("UPDATE @queue r SET tickets = 0", "1::bigint", "p_queue text", "p_id uuid", "p_session uuid", "clean boolean")
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
	switch name {
	case "read": // without more of a text than anybody writes who keeps to the limits
		return "SELECT name, pg_catalog.left(kind, 65536), capacity, at, id, pg_catalog.left(owner, 65536), pg_catalog.substr(note, 1, 65536), units, held, token, since, ends, fixed FROM " + call
	case "load":
		return fmt.Sprintf("SELECT version, present, pg_catalog.substr(value, 1, %d) FROM %s", driver.MaxCell+1, call)
	case "tickets":
		return "SELECT * FROM " + call
	}
	return "SELECT " + call
}

// query calls a function, and has its answer read.
func (s *store) query(ctx context.Context, name string, read func(pgx.Rows) error, args ...any) error {
	return s.queryOn(ctx, s.pool.connect, name, read, args...)
}

func (s *store) queryOn(ctx context.Context, acquire func(context.Context) (*pgxpool.Conn, error), name string, read func(pgx.Rows) error, args ...any) error {
	return s.statement(ctx, acquire, s.calls[name], read, args...)
}

// statement makes the tables again if they are not there any more: the server came back empty, or
// somebody has dropped them.
func (s *store) statement(ctx context.Context, acquire func(context.Context) (*pgxpool.Conn, error), sql string, read func(pgx.Rows) error, args ...any) error {
	err := s.execute(ctx, acquire, sql, read, args...)
	if !database.Missing(err) {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	return s.execute(ctx, acquire, sql, read, args...)
}

func (s *store) execute(ctx context.Context, acquire func(context.Context) (*pgxpool.Conn, error), sql string, read func(pgx.Rows) error, args ...any) error {
	c, err := acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	return s.confirmed(ctx, c, func() error {
		r, err := c.Query(ctx, sql, append([]any{s.mode}, args...)...)
		if err != nil {
			return err
		}
		return read(r)
	})
}

// numbers calls a function that returns a code and more.
func (s *store) numbers(ctx context.Context, name string, least int, args ...any) ([]int64, error) {
	var got []int64
	err := s.query(ctx, name, func(r pgx.Rows) (err error) {
		got, err = pgx.CollectOneRow(r, pgx.RowTo[[]int64])
		return err
	}, args...)
	if err != nil {
		return nil, err
	}
	if len(got) == 0 || got[0] >= 0 && len(got) < least {
		return nil, fmt.Errorf("postgres: %s has answered %d numbers", name, len(got))
	}
	if got[0] < 0 {
		return got, sqlcode.Err(got[0])
	}
	return got, nil
}

// rows calls a function that returns a list.
func rows[T any](ctx context.Context, s *store, name string, args ...any) ([]T, error) {
	return rowsOn[T](ctx, s, s.pool.connect, name, args...)
}

func rowsOn[T any](ctx context.Context, s *store, acquire func(context.Context) (*pgxpool.Conn, error), name string, args ...any) (all []T, err error) {
	err = s.queryOn(ctx, acquire, name, func(r pgx.Rows) (err error) {
		all, err = pgx.CollectRows(r, pgx.RowTo[T])
		return err
	}, args...)
	return all, err
}

// Traits: a list is a call of one function. One may wait for its commit, or for a server that does not answer.
func (s *store) Traits() exchange.Traits {
	return exchange.Traits{Together: perList, Patience: 5 * time.Millisecond,
		Prompt: func(c exchange.Change) bool { return s.alone(c.In()) }}
}

const perList = 32

// Close leaves a pool open that others use.
func (s *store) Close() {
	s.cancel()
	s.pool.leave()
}

func (s *store) Begin(ctx context.Context, o exchange.Session) (exchange.Begun, error) {
	for old := s.pool.ttl.Load(); old > int64(o.TTL) && !s.pool.ttl.CompareAndSwap(old, int64(o.TTL)); old = s.pool.ttl.Load() {
	}
	got, err := s.numbers(ctx, "begin", 1, o.ID, o.TTL.Microseconds(), text(o.Owner), s.heard(o.Mailbox))
	begun := exchange.Begun{History: history(got)}
	if len(got) > 2 { // what is left of the grace after a crash
		begun.Paused = us(got[2])
	}
	return begun, err
}

// history is the second number of an answer; 0 is none.
func history(got []int64) string {
	if len(got) < 2 || got[1] == 0 {
		return ""
	}
	return strconv.FormatInt(got[1], 10)
}

// heard is the mailbox, which is a channel of the server, if clients can listen to it.
func (s *store) heard(mailbox string) string {
	if s.silent {
		return ""
	}
	return mailbox
}

// text leaves out what the database cannot store in a text.
func text(t string) string {
	out := make([]rune, 0, len(t))
	for _, r := range t { // what is not UTF-8 becomes U+FFFD
		if r != 0 {
			out = append(out, r)
		}
	}
	return string(out)
}
