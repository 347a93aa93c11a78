package database

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Layout is the tables and functions that a client and its doctor expect.
type Layout struct {
	Schema, Prefix    string   // of their names
	Owner             string   // a role that is trusted with them, beside those that are anyway
	Kind              string   // logged or unlogged, if that was asked for
	Tables, Functions []string // their names in the schema
	Version           int
}

// Name is a table or function, for SQL.
func (l Layout) Name(of string) string { return Name(l.Schema, l.Prefix, of) }

// Name is a table or function of a schema, for SQL.
func Name(schema, prefix, of string) string { return `"` + schema + `"."` + prefix + of + `"` }

// Quoted is the name of a role or of anything else, for SQL.
func Quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// NowUS is the server's clock in microseconds, for SQL.
const NowUS = `(extract(epoch FROM clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint`

// Made is what is known of the tables and functions that are there.
type Made struct {
	Exists   bool   // the schema does
	There    bool   // the tables are
	Strange  string // what belongs to whom, of that which belongs to a stranger
	Lacking  string // a function that is not there
	Version  int
	Unlogged bool
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Find finds out about the tables. They may be there although they cannot be read.
func (l Layout) Find(ctx context.Context, db Querier) (m Made, err error) {
	// Unlike to_regclass this needs no right to use the schema.
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = $1::text),
		EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1::text AND c.relname = $2::text),
		coalesce((SELECT f FROM pg_catalog.unnest($3::text[]) f WHERE NOT EXISTS
			(SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1::text AND p.proname = f) LIMIT 1), '')`,
		pgx.QueryExecModeExec, l.Schema, l.Prefix+"meta", l.Functions).Scan(&m.Exists, &m.There, &m.Lacking)
	if err != nil || !m.Exists {
		return m, err
	}
	if m.Strange, err = l.strange(ctx, db); err != nil || m.Strange != "" || !m.There {
		return m, err
	}
	err = db.QueryRow(ctx, "SELECT version, unlogged FROM "+l.Name("meta"), pgx.QueryExecModeExec).Scan(&m.Version, &m.Unlogged)
	return m, err
}

// strange names something that belongs to a stranger, and the stranger. Whoever may make schemas
// could have been there first, with tables and functions that do something else.
func (l Layout) strange(ctx context.Context, db Querier) (string, error) {
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
		ORDER BY x.n LIMIT 1`, pgx.QueryExecModeExec, l.Schema, l.Tables, l.Functions, l.Owner).Scan(&what, &owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return what + " belongs to " + owner, err
}

// Misfit says why tables cannot be used that are there.
func (l Layout) Misfit(m Made) error {
	switch {
	case m.Strange != "":
		return fmt.Errorf("in the schema %s %s, who is neither this user, nor the owner of the database, nor a superuser: "+
			"if that is right, add schema_owner= with that name to the URL (pglock.Schema.Owner), else use another schema", l.Schema, m.Strange)
	case !m.There:
		return nil
	case m.Version != l.Version:
		return fmt.Errorf("the tables in the schema %s have version %d, this program knows %d", l.Schema, m.Version, l.Version)
	case m.Lacking != "":
		return fmt.Errorf("the schema %s has the tables, and lacks the function %s", l.Schema, m.Lacking)
	case l.Kind == "logged" && m.Unlogged, l.Kind == "unlogged" && !m.Unlogged:
		is := map[bool]string{true: "unlogged", false: "logged"}[m.Unlogged]
		return fmt.Errorf("the tables in the schema %s are %s: leave durability= out, or use another schema", l.Schema, is)
	}
	return nil
}
