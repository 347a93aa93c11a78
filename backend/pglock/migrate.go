package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
)

// migrate makes the tables and functions, unless they are there, and gives functions of an
// earlier release their search path. Many clients may do so at once.
func (s *store) migrate(ctx context.Context) error {
	if m, err := s.examine(ctx, s.pool); m.there && !m.mendable || err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// One after the other; whoever comes later finds them.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(pg_catalog.hashtextextended($1::text, 0))", pgx.QueryExecModeExec, s.schema.name("schema")); err != nil {
			return err
		}
		m, err := s.examine(ctx, tx)
		if m.there && !m.mendable || err != nil {
			return err
		}
		sql := m.mending()
		if !m.there {
			sql = s.schema.body()
			if !m.exists {
				sql = `CREATE SCHEMA "` + s.schema.Name + `";` + sql
			}
			s.unlogged = !s.schema.Logged
		}
		_, err = tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if denied(err) {
		return driver.Permanent(fmt.Errorf("the tables of Interlock are not in the schema %s, and this user may not make them (%w): "+
			"have somebody run what interlock schema prints (pglock.Schema.SQL)", s.schema.Name, err))
	}
	return err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// examine finds the tables, and reports why they cannot be used.
func (s *store) examine(ctx context.Context, db querier) (made, error) {
	m, err := s.find(ctx, db)
	if err != nil {
		return m, err
	}
	if m.there {
		s.unlogged = m.unlogged
	}
	return m, driver.Permanent(s.misfit(m))
}

// made is what is known of the tables and functions.
type made struct {
	exists   bool     // the schema does
	there    bool     // the tables are
	strange  string   // what belongs to whom, of that which belongs to a stranger
	pathless []string // functions without the search path
	mendable bool     // there are some, and the user may give them the search path
	owner    string   // of one of them
	version  int
	unlogged bool
}

// mending is what gives functions their search path.
func (m made) mending() string {
	var b strings.Builder
	for _, f := range m.pathless {
		b.WriteString("ALTER FUNCTION " + f + " SET " + path + ";")
	}
	return b.String()
}

// find finds out about the tables. They may be there although they cannot be read.
func (s *store) find(ctx context.Context, db querier) (m made, err error) {
	// Unlike to_regclass this needs no right to use the schema.
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = $1::text),
		EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1::text AND c.relname = $2::text)`,
		pgx.QueryExecModeExec, s.schema.Name, s.schema.Prefix+"meta").Scan(&m.exists, &m.there)
	if err != nil || !m.exists {
		return m, err
	}
	if m.strange, err = s.strange(ctx, db); err != nil || m.strange != "" || !m.there {
		return m, err
	}
	if err := s.findPathless(ctx, db, &m); err != nil {
		return m, err
	}
	err = db.QueryRow(ctx, "SELECT version, unlogged FROM "+s.schema.name("meta"), pgx.QueryExecModeExec).Scan(&m.version, &m.unlogged)
	return m, err
}

// strange names something that belongs to a stranger, and the stranger. Whoever may make schemas
// could have been there first, with tables and functions that do something else.
func (s *store) strange(ctx context.Context, db querier) (string, error) {
	var what, owner string
	err := db.QueryRow(ctx, `SELECT o.what, r.rolname::text FROM (
			SELECT 0, 'the schema '::text, n.nspname, n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = $1::text
			UNION ALL
			SELECT 1, 'the table ', c.relname, c.relowner FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1::text AND c.relname = ANY ($2::text[])
			UNION ALL
			SELECT 2, 'the function ', p.proname, p.proowner FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
				WHERE n.nspname = $1::text AND p.proname = ANY ($3::text[])
		) x(n, kind, name, owner)
		CROSS JOIN LATERAL (SELECT x.kind OPERATOR(pg_catalog.||) x.name::text AS what) o
		JOIN pg_catalog.pg_roles r ON r.oid = x.owner
		JOIN pg_catalog.pg_roles me ON me.rolname = current_user
		JOIN pg_catalog.pg_database d ON d.datname = current_database()
		WHERE NOT r.rolsuper AND r.oid <> me.oid AND r.oid <> d.datdba AND r.rolname <> 'pg_database_owner' AND r.rolname <> $4::text
			AND (me.rolsuper OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))
		ORDER BY x.n LIMIT 1`, pgx.QueryExecModeExec, s.schema.Name, s.schema.all(tableName, tables), s.schema.all(functionName, functions), s.schema.Owner).Scan(&what, &owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return what + " belongs to " + owner, err
}

// findPathless finds functions that an earlier release has made.
func (s *store) findPathless(ctx context.Context, db querier, m *made) error {
	rows, err := db.Query(ctx, `SELECT p.oid::regprocedure::text, pg_catalog.pg_has_role(p.proowner, 'USAGE'), pg_catalog.pg_get_userbyid(p.proowner)::text
		FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = $1::text AND p.proname = ANY ($2::text[]) AND NOT coalesce($3::text = ANY (p.proconfig), false)`,
		pgx.QueryExecModeExec, s.schema.Name, s.schema.all(functionName, functions), strings.Replace(path, " = ", "=", 1))
	if err != nil {
		return err
	}
	var name string
	var may bool
	m.mendable = true
	_, err = pgx.ForEachRow(rows, []any{&name, &may, &m.owner}, func() error {
		m.pathless, m.mendable = append(m.pathless, name), m.mendable && may
		return nil
	})
	m.mendable = m.mendable && len(m.pathless) > 0
	return err
}

// misfit says why tables cannot be used that are there.
func (s *store) misfit(m made) error {
	switch {
	case m.strange != "":
		return fmt.Errorf("in the schema %s %s, who is neither this user, nor the owner of the database, nor a superuser: "+
			"if that is right, add schema_owner= with that name to the URL (pglock.Schema.Owner), else use another schema", s.schema.Name, m.strange)
	case !m.there:
		return nil
	case m.version != version:
		return fmt.Errorf("the tables in the schema %s have version %d, this program knows %d", s.schema.Name, m.version, version)
	case s.kind == "logged" && m.unlogged, s.kind == "unlogged" && !m.unlogged:
		is := map[bool]string{true: "unlogged", false: "logged"}[m.unlogged]
		return fmt.Errorf("the tables in the schema %s are %s: leave durability= out, or use another schema", s.schema.Name, is)
	}
	return nil
}
