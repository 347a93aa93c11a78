package pglock_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// trap is SQL that makes the schema trap. It has each function and operator of pg_catalog that
// the names stand for once more, for all arguments that this package has, where pg_catalog has
// none for exactly these. PostgreSQL prefers such ones wherever the schema is in the search path.
// They count how often they were called, and fail.
func trap(names []string) string {
	return `CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO PUBLIC;
	CREATE SEQUENCE trap.called; GRANT USAGE ON SEQUENCE trap.called TO PUBLIC;
	DO $trap$
	DECLARE
		types text[] := ARRAY['text', 'uuid', 'bigint', 'integer', 'numeric', 'boolean', 'bytea', 'double precision', 'text[]', 'uuid[]', 'bigint[]', 'name', 'timestamptz'];
		body text := 'LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval(''trap.called''); RAISE ''the trap was called''; END $$';
		f text; a text; b text; o text;
	BEGIN
		FOREACH a IN ARRAY types LOOP
			FOREACH f IN ARRAY ARRAY['` + strings.Join(names, "', '") + `'] LOOP
				IF to_regprocedure('pg_catalog.' || f || '(' || a || ')') IS NULL THEN
					EXECUTE 'CREATE FUNCTION trap.' || f || '(' || a || ') RETURNS ' || a || ' ' || body;
				END IF;
				FOREACH b IN ARRAY types LOOP
					IF to_regprocedure('pg_catalog.' || f || '(' || a || ',' || b || ')') IS NULL THEN
						EXECUTE 'CREATE FUNCTION trap.' || f || '(' || a || ',' || b || ') RETURNS ' || a || ' ' || body;
					END IF;
				END LOOP;
			END LOOP;
			FOREACH b IN ARRAY types LOOP
				EXECUTE 'CREATE FUNCTION trap.evil(' || a || ',' || b || ') RETURNS ' || a || ' ' || body;
				EXECUTE 'CREATE FUNCTION trap.wrong(' || a || ',' || b || ') RETURNS boolean ' || body;
				FOREACH o IN ARRAY ARRAY['||', '+', '-', '*', '/', '&', '|', '=', '<>', '<', '>', '<=', '>='] LOOP
					IF to_regoperator('pg_catalog.' || o || '(' || a || ',' || b || ')') IS NULL THEN
						EXECUTE 'CREATE OPERATOR trap.' || o || ' (leftarg = ' || a || ', rightarg = ' || b || ', function = trap.' ||
							CASE WHEN o ~ '[=<>]' THEN 'wrong' ELSE 'evil' END || ')';
					END IF;
				END LOOP;
			END LOOP;
		END LOOP;
	END $trap$;`
}

// called are the names that are followed by a parenthesis in the SQL of this package.
func called(t *testing.T) []string {
	t.Helper()
	var names []string
	entries := errtest.Must(os.ReadDir("."))(t)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") || !strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), ".sql") {
			continue
		}
		text := errtest.Must(os.ReadFile(e.Name()))(t)
		for _, m := range regexp.MustCompile(`\b([a-z][a-z_0-9]+)\(`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// trapped starts a server of which a user, app, has the schema trap in the search path.
func trapped(t *testing.T) *pgtest.Server {
	t.Helper()
	s := pgtest.Start(t, pgtest.User("app", ""), pgtest.Setup("GRANT CREATE ON DATABASE postgres TO app"))
	known := s.SQL("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY ('{" + strings.Join(called(t), ",") + "}')")
	s.SQL(trap(strings.Fields(known)) + "ALTER ROLE app SET search_path = trap, public")
	return s
}

// Promise: functions and operators of a stranger that have the names of the server's own are never
// called: neither through a pool of this package, nor through one of the program, whatever its
// search path.
func TestNothingOfAStrangerIsCalled(t *testing.T) {
	s := trapped(t)
	if _, err := s.Exec("postgres", "SET search_path = trap; SELECT 'x'::text || '00000000-0000-0000-0000-000000000000'::uuid"); err == nil || s.SQL("SELECT last_value, is_called FROM trap.called") != "1|t" {
		t.Fatalf("the trap does not work: %v", err)
	}
	url := s.URLOf("app", "")
	for name, open := range map[string]func(context.Context, string) (driver.Driver, error){
		"a pool of its own":  openURL,
		"the program's pool": func(ctx context.Context, url string) (driver.Driver, error) { return openPool(ctx, url) },
	} {
		d := errtest.Must(open(t.Context(), url))(t)
		for _, f := range d.Check(t.Context()) {
			if strings.Contains(f.Detail, "could not be examined") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		noError(t, d.Close())
		if n := s.SQL("SELECT last_value FROM trap.called"); n != "1" {
			t.Errorf("%s: opened and examined, and the trap was called", name)
		}
	}
	t.Run("conformance", func(t *testing.T) {
		all := schemas{server: s}
		drivertest.Run(t, drivertest.Backend{TTL: time.Second, Small: true, Shape: "mutex",
			Only: []string{"Order", "NoWait", "LeaveGrantsTheNext", "Shrink", "ExpiryOfAHeldTicket", "ExpiryOfAWaitingTicket", "RenewOfAStray", "Keep", "KeepByAnotherSession",
				"HoldEndsByItself", "HoldBeginsWithTheGrant", "Wanted", "Ask", "Force", "EvictionOfAHeldTicket", "EvictionOfAFixedTicket", "Raise", "InheritedAmongReaders", "SessionClose", "SessionDeath",
				"SwapIsIdempotent", "WatchIsTold", "FollowIsTold", "Snapshots", "ManyQueues", "Cells"},
			World: func(t testing.TB) drivertest.World {
				schema := pglock.Schema{Name: all.take(t)}
				return drivertest.World{
					Open: func(ctx context.Context) (driver.Driver, error) { return openPool(ctx, url, pglock.In(schema)) },
					URL:  url + "&schema=" + schema.Name,
				}
			}})
	})
	if n := s.SQL("SELECT last_value FROM trap.called"); n != "1" {
		t.Errorf("the trap was called %s times, of which this test has called it once", n)
	}
}

// Promise: every function has a search path of its own.
func TestEveryFunctionHasASearchPath(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	opened(t, s.URL())
	if all := s.SQL(`SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace
		AND NOT coalesce(proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false)`); all != "" {
		t.Errorf("these have none: %s", all)
	}
	if n := s.SQL("SELECT count(*) > 40 FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace"); n != "t" {
		t.Error("there are no functions to look at")
	}
}

// Promise: tables and functions of a stranger are not used, be it that the schema is, or that only a
// function in it is. Those of the owner of the database are, and of whom the URL names.
func TestTablesOfAStranger(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("app", ""), pgtest.User("stranger", ""), pgtest.User("admin", ""),
		pgtest.Setup("GRANT CREATE ON DATABASE postgres TO stranger, app"))
	opened(t, s.URLOf("stranger", "")+"&schema=theirs")
	s.SQL("GRANT USAGE ON SCHEMA theirs TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA theirs TO app")
	url := s.URLOf("app", "") + "&schema=theirs"
	for user, url := range map[string]string{"app": url, "postgres": s.URL() + "&schema=theirs"} {
		if why := refused(t, url); !strings.Contains(why, "belongs to stranger") || strings.Contains(why, "\n") {
			t.Errorf("%s: %s", user, why)
		}
	}
	useful(t, opened(t, url+"&schema_owner=stranger"))
	s.SQL("ALTER DATABASE postgres OWNER TO stranger")
	useful(t, opened(t, url))
	s.SQL("ALTER DATABASE postgres OWNER TO postgres; GRANT stranger TO app")
	useful(t, opened(t, url))
	s.SQL("REVOKE stranger FROM app")

	// An empty schema that was there first, and a function beside ours that fits better.
	s.SQL("CREATE SCHEMA empty AUTHORIZATION stranger; GRANT ALL ON SCHEMA empty TO app")
	if why := refused(t, s.URLOf("app", "")+"&schema=empty"); !strings.Contains(why, "belongs to stranger") {
		t.Error(why)
	}
	own := s.URLOf("app", "") + "&schema=own"
	d := opened(t, own)
	s.SQL("CREATE FUNCTION own.settle(varchar) RETURNS bigint[] LANGUAGE sql AS 'SELECT ARRAY[0::bigint]'; ALTER FUNCTION own.settle(varchar) OWNER TO stranger")
	if why := refused(t, own); !strings.Contains(why, "settle") || !strings.Contains(why, "belongs to stranger") {
		t.Error(why)
	}
	doctortest.Examine(t, t.Context(), d).Has("tables", driver.Fail, "belongs to stranger")
}
