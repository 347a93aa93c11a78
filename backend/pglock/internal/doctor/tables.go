package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

func (d *Doctor) checkTables(ctx context.Context) driver.Finding {
	const again = "drop the schema while nobody uses it, and have it made again"
	switch {
	case database.Denied(d.unknown):
		return doctor.Warn(everyLock, "see the rights", "whether they are fit for this program is not known: %v", explained(d.unknown))
	case d.unknown != nil:
		return doctor.Fail(everyLock, "see the error", "%v", explained(d.unknown))
	case d.made.Strange != "":
		return doctor.Fail(everyLock, "ask who made it, and why; if that is right, add schema_owner= to the URL", "%v", d.layout.Misfit(d.made))
	case !d.made.There:
		return d.absent(ctx)
	}
	if err := d.layout.Misfit(d.made); err != nil {
		remedy := "use another schema= in the URL"
		switch {
		case d.made.Version > d.layout.Version:
			remedy += ", or a newer version of this program"
		case d.made.Version < d.layout.Version:
			remedy += ", or " + again
		}
		return doctor.Fail(everyLock, remedy, "%v", err)
	}
	for _, c := range []struct{ what, from, is string }{
		{"tables", "pg_class", "relname"},
		{"functions", "pg_proc", "proname"},
	} {
		names := d.layout.Tables
		if c.what == "functions" {
			names = d.layout.Functions
		}
		found, err := d.texts(ctx, "SELECT "+c.is+"::text FROM pg_catalog."+c.from+" o JOIN pg_catalog.pg_namespace n ON n.oid = "+c.is[:3]+"namespace WHERE n.nspname = $1::text", d.layout.Schema)
		if err != nil {
			return d.failed(everyLock, err)
		}
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(found, name) })
		if slices.Contains(missing, d.layout.Newest) {
			return d.older(missing)
		}
		if len(missing) > 0 {
			return doctor.Fail(everyLock, again, "%s are missing: %s", c.what, strings.Join(missing, ", "))
		}
	}
	kind := "logged"
	if d.made.Unlogged {
		kind = "unlogged"
	}
	return doctor.Fine("version %d in the schema %s, %s", d.layout.Version, d.layout.Schema, kind)
}

// older is the finding that an earlier release has made the functions. They serve every lock.
func (d *Doctor) older(missing []string) driver.Finding {
	remedy := "run interlock doctor once with the URL of " + d.made.Tables + ", who owns the tables, or of a superuser: that replaces the functions"
	if d.made.MayRenew {
		remedy = "run interlock doctor again when nobody reads the tables for long, as pg_dump does: that replaces the functions"
	}
	return doctor.Warn("what they lack: without resize a number of permits cannot be changed, without mend a name whose rows were deleted stays taken", remedy,
		"the functions in the schema %s are of an earlier release, which had no %s; all else is as it should be", d.layout.Schema, strings.Join(missing, ", "))
}

// absent is the finding that nothing was made yet.
func (d *Doctor) absent(ctx context.Context) driver.Finding {
	var exists, may bool
	err := d.pool.QueryRow(ctx, `SELECT n.oid IS NOT NULL, CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
		ELSE has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE') END FROM (VALUES (1)) one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1::text`,
		pgx.QueryExecModeExec, d.layout.Schema).Scan(&exists, &may)
	switch {
	case err != nil:
		return d.failed(everyLock, err)
	case may:
		return doctor.Fail(everyLock, "open the URL again: that makes them", "they are not in the schema %s", d.layout.Schema)
	}
	grant := "GRANT CREATE ON DATABASE " + database.Quoted(d.pool.Config().ConnConfig.Database)
	if exists {
		grant = "GRANT CREATE, USAGE ON SCHEMA " + database.Quoted(d.layout.Schema)
	}
	return doctor.Fail(everyLock, "have somebody who may make them run what interlock schema --grant "+d.User+" prints; or "+grant+" TO "+database.Quoted(d.User),
		"they are not in the schema %s, and %s may not make them", d.layout.Schema, d.User)
}

// checkPath looks for what lets strangers run functions of their own in the place of the server's.
func (d *Doctor) checkPath(ctx context.Context) driver.Finding {
	const promise = "secrecy and exclusion: who may make functions could have this user run them"
	if d.made.There && d.unknown == nil && len(d.made.Pathless) > 0 {
		return doctor.Warn(promise, "run interlock doctor once with the URL of "+d.made.Owner+", who owns them: that gives them one",
			"%d functions, made by an earlier release, have no search path of their own", len(d.made.Pathless))
	}
	open, err := d.texts(ctx, `SELECT n.nspname::text FROM pg_catalog.pg_namespace n CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
		WHERE a.grantee = 0::oid AND a.privilege_type = 'CREATE' ORDER BY 1`)
	switch {
	case err != nil:
		return d.failed(promise, err)
	case len(open) > 0:
		return doctor.Warn("secrecy and exclusion, for other programs of this database", "REVOKE CREATE ON SCHEMA "+strings.Join(open, ", ")+" FROM PUBLIC",
			"everybody may make functions in %s; those of Interlock do not look there", strings.Join(open, ", "))
	}
	return doctor.Fine("functions have one of their own")
}

// right is one that is granted by one statement.
type right struct{ what, on string }

// lacking are the rights that the user does not have.
func (d *Doctor) lacking(ctx context.Context) (all []right, err error) {
	for _, kind := range []struct {
		names []string
		on    string
		sql   string
	}{
		{[]string{""}, "SCHEMA ", `SELECT 'USAGE', '' FROM pg_catalog.pg_namespace n WHERE n.nspname = $1::text AND $2::text[] IS NOT NULL AND NOT has_schema_privilege(n.oid, 'USAGE')`},
		{d.layout.Tables, "", `SELECT pg_catalog.string_agg(r.name, ', ' ORDER BY r.n), c.relname::text
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			CROSS JOIN pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY r(name, n)
			WHERE n.nspname = $1::text AND c.relname = ANY($2::text[]) AND NOT has_table_privilege(c.oid, r.name) GROUP BY c.relname ORDER BY c.relname`},
		{d.layout.Functions, "FUNCTION ", `SELECT 'EXECUTE', p.proname::text
			FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
			WHERE n.nspname = $1::text AND p.proname = ANY($2::text[]) AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY p.proname`},
	} {
		rows, err := d.pool.Query(ctx, kind.sql, pgx.QueryExecModeExec, d.layout.Schema, kind.names)
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
			of := database.Quoted(d.layout.Schema)
			if name != "" {
				of += "." + database.Quoted(name)
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
func (d *Doctor) checkRights(context.Context) driver.Finding {
	user := d.User
	switch {
	case !d.made.There || d.unknown != nil && len(d.lacks) == 0:
		return driver.Finding{} // see checkTables
	case len(d.lacks) == 0:
		return doctor.Fine("%s may use all tables and functions", user)
	}
	var names, statements []string
	for _, r := range d.lacks {
		names = append(names, r.what+" on "+r.on)
		statements = append(statements, "GRANT "+r.what+" ON "+r.on+" TO "+database.Quoted(user))
	}
	return doctor.Fail(everyLock, strings.Join(statements, "; ")+" (interlock schema --only-grants --grant "+user+" prints all that are needed)",
		"%s lacks %s", user, strings.Join(names, "; "))
}

// texts reads one column.
func (d *Doctor) texts(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := d.pool.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// checkWriting makes a session and ends it.
func (d *Doctor) checkWriting(ctx context.Context) driver.Finding {
	switch {
	case d.Standby:
		return doctor.Fail(everyLock, "name the primary in the URL, or all hosts (host1,host2)", "this server is a standby, where nothing can be changed")
	case d.ReadOnly:
		return doctor.Fail(everyLock, d.Set("read_only", "off")+", or where else the setting comes from", "transactions are read-only here (default_transaction_read_only)")
	case d.Isolation != database.ReadCommitted:
		return doctor.Fail(everyLock, d.Set("isolation", "'"+database.ReadCommitted+"'"), "transactions are %s here, which would make calls fail under load", d.Isolation)
	}
	if err := d.probe(ctx); err != nil {
		return doctor.Fail(everyLock, "see the error, and the other checks", "%v", explained(err))
	}
	return doctor.Fine("a session can be begun and ended")
}

// probe makes the shortest session that there is.
func (d *Doctor) probe(ctx context.Context) error {
	id := exchange.NewID()
	var begun []int64
	if err := d.pool.QueryRow(ctx, "SELECT "+d.layout.Name("begin")+"($1::uuid, 100000, 'doctor', '')", pgx.QueryExecModeExec, id).Scan(&begun); err != nil {
		return err
	}
	if len(begun) > 0 && begun[0] < 0 {
		return sqlcode.Err(begun[0])
	}
	_, err := d.texts(ctx, "SELECT "+d.layout.Name("end")+"($1::uuid)", id)
	return err
}
