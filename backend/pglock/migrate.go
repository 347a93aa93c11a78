package pglock

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
)

// migrate makes the tables and functions, unless they are there, and replaces functions of an
// earlier release, or gives them their search path. Many clients may do so at once.
func (s *store) migrate(ctx context.Context) error {
	if m, err := s.examine(ctx, s.pool); m.There && !lacking(m) || err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// One after the other; whoever comes later finds them.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(pg_catalog.hashtextextended($1::text, 0))", pgx.QueryExecModeExec, s.schema.name("schema")); err != nil {
			return err
		}
		m, err := s.examine(ctx, tx)
		if m.There && !lacking(m) || err != nil {
			return err
		}
		if !m.There {
			sql := s.schema.body()
			if !m.Exists {
				sql = `CREATE SCHEMA "` + s.schema.Name + `";` + sql
			}
			s.unlogged.Store(!s.schema.Logged)
			_, err = tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			return err
		}
		if m.Mendable {
			if _, err := tx.Exec(ctx, mending(m.Pathless), pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		if m.Older && m.MayRenew {
			return s.renew(ctx, tx, m)
		}
		return nil
	})
	if database.Denied(err) {
		return driver.Permanent(fmt.Errorf("the tables of Interlock are not in the schema %s, and this user may not make them (%w): "+
			"have somebody run what interlock admin schema prints (pglock.Schema.SQL)", s.schema.Name, err))
	}
	return err
}

// renew replaces functions of an earlier release, with those for tables that are as they are, and as their
// owner: what is new then belongs to nobody else. Programs that are running read the tables meanwhile, so it
// does not wait for long: behind it they would wait, too. If it may not, or would have to wait, this client
// goes on with the functions as they are, and a later one tries again.
func (s *store) renew(ctx context.Context, tx pgx.Tx, m database.Made) error {
	schema := s.schema
	schema.Logged = !m.Unlogged
	sql := "SET LOCAL lock_timeout = '500ms'; SET LOCAL ROLE " + database.Quoted(m.Tables) + ";" + schema.renewal()
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if database.Denied(err) || database.Locked(err) {
		return nil
	}
	return err
}

// lacking reports whether the tables or functions lack something that the user may give them.
func lacking(m database.Made) bool { return m.Mendable || m.Older && m.MayRenew }

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

// mending is what gives functions their search path.
func mending(functions []string) string {
	var b strings.Builder
	for _, f := range functions {
		b.WriteString("ALTER FUNCTION " + f + " SET " + path + ";")
	}
	return b.String()
}
