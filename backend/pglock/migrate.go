package pglock

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/driver"
)

// migrate makes the tables and functions, unless they are there. Many clients may do
// so at once.
func (s *store) migrate(ctx context.Context) error {
	there, err := s.examine(ctx, s.pool)
	if there || err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// One after the other; whoever comes later finds them.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))", pgx.QueryExecModeExec, s.schema.name("schema")); err != nil {
			return err
		}
		there, err := s.examine(ctx, tx)
		if there || err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT to_regnamespace($1::text) IS NOT NULL", pgx.QueryExecModeExec, s.schema.Name).Scan(&exists); err != nil {
			return err
		}
		sql := s.schema.body()
		if !exists {
			sql = `CREATE SCHEMA "` + s.schema.Name + `";` + sql
		}
		_, err = tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return driver.Permanent(fmt.Errorf("the tables of Interlock are not in the schema %s, and this user may not make them (%w): "+
			"have somebody run what interlock schema prints (pglock.Schema.SQL)", s.schema.Name, err))
	}
	s.unlogged = !s.schema.Logged
	return err
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// examine reports whether the tables are there, and why they cannot be used.
func (s *store) examine(ctx context.Context, db querier) (there bool, err error) {
	var exists bool
	// Unlike to_regclass this needs no right to use the schema.
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text)`, pgx.QueryExecModeExec, s.schema.Name, s.schema.Prefix+"meta").Scan(&exists)
	if err != nil || !exists {
		return false, err
	}
	var v int
	if err := db.QueryRow(ctx, "SELECT version, unlogged FROM "+s.schema.name("meta"), pgx.QueryExecModeExec).Scan(&v, &s.unlogged); err != nil {
		return false, err
	}
	switch {
	case v != version:
		return false, driver.Permanent(fmt.Errorf("the tables in the schema %s have version %d, this program knows %d", s.schema.Name, v, version))
	case s.kind == "logged" && s.unlogged, s.kind == "unlogged" && !s.unlogged:
		is := map[bool]string{true: "unlogged", false: "logged"}[s.unlogged]
		return false, driver.Permanent(fmt.Errorf("the tables in the schema %s are %s: leave durability= out, or use another schema", s.schema.Name, is))
	}
	return true, nil
}
