package pglock

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
)

// migrate makes the tables and functions, unless they are there. Many clients may do so at once.
func (s *store) migrate(ctx context.Context) error {
	if m, err := s.examine(ctx, s.pool); m.There || err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// One after the other; whoever comes later finds them.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(pg_catalog.hashtextextended($1::text, 0))", pgx.QueryExecModeExec, s.schema.name("schema")); err != nil {
			return err
		}
		m, err := s.examine(ctx, tx)
		if m.There || err != nil {
			return err
		}
		sql := s.schema.body()
		if !m.Exists {
			sql = `CREATE SCHEMA "` + s.schema.Name + `";` + sql
		}
		s.unlogged.Store(!s.schema.Logged)
		_, err = tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if database.Denied(err) {
		return driver.Permanent(fmt.Errorf("the tables of Interlock are not in the schema %s, and this user may not make them (%w): "+
			"have somebody run what interlock admin schema prints (pglock.Schema.SQL)", s.schema.Name, err))
	}
	return err
}

// examine finds the tables, and reports why they cannot be used.
func (s *store) examine(ctx context.Context, db database.Querier) (database.Made, error) {
	m, err := s.layout().Find(ctx, db)
	if err != nil {
		return m, err
	}
	if m.There {
		s.unlogged.Store(m.Unlogged)
	}
	return m, driver.Permanent(s.layout().Misfit(m))
}
