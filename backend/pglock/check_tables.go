package pglock

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

func (s *store) checkTables(ctx context.Context) driver.Finding {
	const remedy = "have somebody who may make them open the URL once, or run what pglock.Schema.SQL prints"
	there, err := s.examine(ctx, s.pool)
	switch {
	case err != nil:
		return doctor.Fail(everyLock, remedy, "%v", err)
	case !there:
		return doctor.Fail(everyLock, remedy, "they are not in the schema %s", s.schema.Name)
	}
	kind := "logged"
	if s.unlogged {
		kind = "unlogged"
	}
	var missing []string
	for name := range s.calls {
		var found bool
		err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
			WHERE n.nspname = $1::text AND p.proname = $2::text)`, pgx.QueryExecModeExec, s.schema.Name, s.schema.Prefix+name).Scan(&found)
		if err != nil {
			return s.failed(everyLock, err)
		}
		if !found {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return doctor.Fail(everyLock, "drop the schema while nobody uses it, and have it made again", "functions are missing: %s", strings.Join(missing, ", "))
	}
	return doctor.Fine("version %d in the schema %s, %s", version, s.schema.Name, kind)
}

// checkRights names the rights that are missing.
func (s *store) checkRights(ctx context.Context) driver.Finding {
	var user string
	if err := s.row(ctx, "SELECT current_user", &user); err != nil {
		return s.failed(everyLock, err)
	}
	var missing []string
	var usage bool
	err := s.pool.QueryRow(ctx, "SELECT has_schema_privilege($1::text, 'USAGE')", pgx.QueryExecModeExec, s.schema.Name).Scan(&usage)
	if err != nil {
		return s.failed(everyLock, err)
	}
	if !usage {
		missing = append(missing, "USAGE of the schema")
	}
	for _, t := range tableName.FindAllStringSubmatch(tables, -1) {
		for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			var has bool
			err := s.pool.QueryRow(ctx, `SELECT coalesce(has_table_privilege(c.oid, $3::text), false) FROM pg_catalog.pg_class c
				JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1::text AND c.relname = $2::text`,
				pgx.QueryExecModeExec, s.schema.Name, s.schema.Prefix+t[1], right).Scan(&has)
			if err == pgx.ErrNoRows {
				missing = append(missing, "the table "+t[1])
				break
			}
			if err != nil {
				return s.failed(everyLock, err)
			}
			if !has {
				missing = append(missing, right+" of "+t[1])
			}
		}
	}
	if len(missing) > 0 {
		return doctor.Fail(everyLock, "have the owner of the tables run: "+strings.ReplaceAll(strings.TrimSpace(s.schema.grants(user)), "\n", " "),
			"%s lacks: %s", user, strings.Join(missing, ", "))
	}
	return doctor.Fine("%s may use all tables", user)
}

// checkWriting makes a session and ends it.
func (s *store) checkWriting(ctx context.Context) driver.Finding {
	if err := s.probe(ctx); err != nil {
		return doctor.Fail(everyLock, "see the error", "%v", s.Explain(err))
	}
	return doctor.Fine("a session can be begun and ended")
}
