package pglock

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

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
	if denied(err) {
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
	m, err := s.find(ctx, db)
	if err != nil || !m.there {
		return false, err
	}
	s.unlogged = m.unlogged
	return true, driver.Permanent(s.misfit(m))
}

// made is what is known of the tables.
type made struct {
	there    bool
	version  int
	unlogged bool
}

// find finds out about the tables. They may be there although they cannot be read.
func (s *store) find(ctx context.Context, db querier) (m made, err error) {
	// Unlike to_regclass this needs no right to use the schema.
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text)`, pgx.QueryExecModeExec, s.schema.Name, s.schema.Prefix+"meta").Scan(&m.there)
	if err != nil || !m.there {
		return m, err
	}
	err = db.QueryRow(ctx, "SELECT version, unlogged FROM "+s.schema.name("meta"), pgx.QueryExecModeExec).Scan(&m.version, &m.unlogged)
	return m, err
}

// misfit says why tables cannot be used that are there.
func (s *store) misfit(m made) error {
	switch {
	case m.version != version:
		return fmt.Errorf("the tables in the schema %s have version %d, this program knows %d", s.schema.Name, m.version, version)
	case s.kind == "logged" && m.unlogged, s.kind == "unlogged" && !m.unlogged:
		is := map[bool]string{true: "unlogged", false: "logged"}[m.unlogged]
		return fmt.Errorf("the tables in the schema %s are %s: leave durability= out, or use another schema", s.schema.Name, is)
	}
	return nil
}
