package pglock

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

func (x *exam) checkTables(ctx context.Context) driver.Finding {
	const again = "drop the schema while nobody uses it, and have it made again"
	switch {
	case denied(x.unknown):
		return doctor.Warn(everyLock, "see the rights", "whether they are fit for this program is not known: %v", x.Explain(x.unknown))
	case x.unknown != nil:
		return doctor.Fail(everyLock, "see the error", "%v", x.Explain(x.unknown))
	case x.made.strange != "":
		return doctor.Fail(everyLock, "ask who made it, and why; if that is right, add schema_owner= to the URL", "%v", x.misfit(x.made))
	case !x.there:
		return x.absent(ctx)
	}
	if err := x.misfit(x.made); err != nil {
		remedy := "use another schema= in the URL"
		switch {
		case x.made.version > version:
			remedy += ", or a newer version of this program"
		case x.made.version < version:
			remedy += ", or " + again
		}
		return doctor.Fail(everyLock, remedy, "%v", err)
	}
	for _, c := range []struct{ what, from, is string }{
		{"tables", "pg_class", "relname"},
		{"functions", "pg_proc", "proname"},
	} {
		names := x.schema.all(tableName, tables)
		if c.what == "functions" {
			names = x.schema.all(functionName, functions)
		}
		found, err := x.texts(ctx, "SELECT "+c.is+"::text FROM pg_catalog."+c.from+" o JOIN pg_catalog.pg_namespace n ON n.oid = "+c.is[:3]+"namespace WHERE n.nspname = $1::text", x.schema.Name)
		if err != nil {
			return x.failed(everyLock, err)
		}
		missing := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(found, name) })
		if len(missing) > 0 {
			return doctor.Fail(everyLock, again, "%s are missing: %s", c.what, strings.Join(missing, ", "))
		}
	}
	kind := "logged"
	if x.made.unlogged {
		kind = "unlogged"
	}
	return doctor.Fine("version %d in the schema %s, %s", version, x.schema.Name, kind)
}

// absent is the finding that nothing was made yet.
func (x *exam) absent(ctx context.Context) driver.Finding {
	var exists, may bool
	err := x.pool.QueryRow(ctx, `SELECT n.oid IS NOT NULL, CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
		ELSE has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE') END FROM (VALUES (1)) one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1::text`,
		pgx.QueryExecModeExec, x.schema.Name).Scan(&exists, &may)
	switch {
	case err != nil:
		return x.failed(everyLock, err)
	case may:
		return doctor.Fail(everyLock, "open the URL again: that makes them", "they are not in the schema %s", x.schema.Name)
	}
	grant := "GRANT CREATE ON DATABASE " + quoted(x.pool.Config().ConnConfig.Database)
	if exists {
		grant = "GRANT CREATE, USAGE ON SCHEMA " + quoted(x.schema.Name)
	}
	return doctor.Fail(everyLock, "have somebody who may make them run what interlock schema --grant "+x.peer.user+" prints; or "+grant+" TO "+quoted(x.peer.user),
		"they are not in the schema %s, and %s may not make them", x.schema.Name, x.peer.user)
}

// checkPath looks for what lets strangers run functions of their own in the place of the server's.
func (x *exam) checkPath(ctx context.Context) driver.Finding {
	const promise = "secrecy and exclusion: who may make functions could have this user run them"
	if x.there && x.unknown == nil && len(x.made.pathless) > 0 {
		return doctor.Warn(promise, "run interlock doctor once with the URL of "+x.made.owner+", who owns them: that gives them one",
			"%d functions, made by an earlier release, have no search path of their own", len(x.made.pathless))
	}
	open, err := x.texts(ctx, `SELECT n.nspname::text FROM pg_catalog.pg_namespace n CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
		WHERE a.grantee = 0::oid AND a.privilege_type = 'CREATE' ORDER BY 1`)
	switch {
	case err != nil:
		return x.failed(promise, err)
	case len(open) > 0:
		return doctor.Warn("secrecy and exclusion, for other programs of this database", "REVOKE CREATE ON SCHEMA "+strings.Join(open, ", ")+" FROM PUBLIC",
			"everybody may make functions in %s; those of Interlock do not look there", strings.Join(open, ", "))
	}
	return doctor.Fine("functions have one of their own")
}

// right is one that is granted by one statement.
type right struct{ what, on string }

// lacking are the rights that the user does not have.
func (s *store) lacking(ctx context.Context) (all []right, err error) {
	for _, kind := range []struct {
		names []string
		on    string
		sql   string
	}{
		{[]string{""}, "SCHEMA ", `SELECT 'USAGE', '' FROM pg_catalog.pg_namespace n WHERE n.nspname = $1::text AND $2::text[] IS NOT NULL AND NOT has_schema_privilege(n.oid, 'USAGE')`},
		{s.schema.all(tableName, tables), "", `SELECT pg_catalog.string_agg(r.name, ', ' ORDER BY r.n), c.relname::text
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			CROSS JOIN pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY r(name, n)
			WHERE n.nspname = $1::text AND c.relname = ANY($2::text[]) AND NOT has_table_privilege(c.oid, r.name) GROUP BY c.relname ORDER BY c.relname`},
		{s.schema.all(functionName, functions), "FUNCTION ", `SELECT 'EXECUTE', p.proname::text
			FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
			WHERE n.nspname = $1::text AND p.proname = ANY($2::text[]) AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY p.proname`},
	} {
		rows, err := s.pool.Query(ctx, kind.sql, pgx.QueryExecModeExec, s.schema.Name, kind.names)
		if err != nil {
			return nil, err
		}
		on := map[string][]string{} // what is granted together
		var order []string
		var what, name string
		if _, err := pgx.ForEachRow(rows, []any{&what, &name}, func() error {
			if on[what] == nil {
				order = append(order, what)
			}
			of := quoted(s.schema.Name)
			if name != "" {
				of += "." + quoted(name)
			}
			on[what] = append(on[what], of)
			return nil
		}); err != nil {
			return nil, err
		}
		for _, what := range order {
			all = append(all, right{what, kind.on + strings.Join(on[what], ", ")})
		}
	}
	return all, nil
}

// checkRights names the rights that are missing.
func (x *exam) checkRights(context.Context) driver.Finding {
	user := x.peer.user
	switch {
	case !x.there || x.unknown != nil && len(x.lacks) == 0:
		return driver.Finding{} // see checkTables
	case len(x.lacks) == 0:
		return doctor.Fine("%s may use all tables and functions", user)
	}
	var names, statements []string
	for _, r := range x.lacks {
		names = append(names, r.what+" on "+r.on)
		statements = append(statements, "GRANT "+r.what+" ON "+r.on+" TO "+quoted(user))
	}
	return doctor.Fail(everyLock, strings.Join(statements, "; ")+" (interlock schema --only-grants --grant "+user+" prints all that are needed)",
		"%s lacks %s", user, strings.Join(names, "; "))
}

// texts reads one column.
func (s *store) texts(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := s.pool.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// checkWriting makes a session and ends it.
func (x *exam) checkWriting(ctx context.Context) driver.Finding {
	switch {
	case x.standby:
		return doctor.Fail(everyLock, "name the primary in the URL, or all hosts (host1,host2)", "this server is a standby, where nothing can be changed")
	case x.readOnly:
		return doctor.Fail(everyLock, x.set("read_only", "off")+", or where else the setting comes from", "transactions are read-only here (default_transaction_read_only)")
	case x.isolation != readCommitted:
		return doctor.Fail(everyLock, x.set("isolation", "'"+readCommitted+"'"), "transactions are %s here, which would make calls fail under load", x.isolation)
	}
	if err := x.probe(ctx); err != nil {
		return doctor.Fail(everyLock, "see the error, and the other checks", "%v", x.Explain(err))
	}
	return doctor.Fine("a session can be begun and ended")
}
