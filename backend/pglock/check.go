package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// examine is for a URL that open refuses: what was not opened can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	s, err := storeOf(u)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, err := s.meet(ctx); err != nil && !database.Answered(err) {
		return nil, s.Explain(err)
	}
	return s.Check(ctx), nil
}

// examination is one call of Check.
type examination struct {
	*store
	server database.Server
	made   database.Made
}

// Check is called for interlock doctor, and for programs that ask whether their backend is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	e := &examination{store: s}
	return doctor.Examine(ctx, []doctor.Check{
		{"server", "it answers, and can be written", e.checkServer},
		{"tables", "they fit this program", e.checkTables}, // functions of a stranger are not called
	}, append(doctor.Use(s, doctor.Try, e.remedy), []doctor.Check{
		{"news", "they arrive", e.checkNews},
		{"crash", "a crash of the server loses no lock that is held", e.checkCrash},
		{"disk", "the server waits for it", e.checkDisk},
		{"standbys", "a failover loses nothing", e.checkStandbys},
		doctor.Clock(s.Clock),
	}...)...)
}

func (e *examination) checkServer(ctx context.Context) (f driver.Finding) {
	var err error
	if e.server, err = e.meet(ctx); err == nil {
		err = unfit(e.server)
	}
	return doctor.Answer(e.Explain(err), e.remedy)
}

// remedy says what to do about an error of the server; "" if the error says it.
func (e *examination) remedy(err error) string {
	c := e.pool.Config().ConnConfig
	switch {
	case database.Denied(err) && e.server.User != "":
		return "interlock admin schema --only-grants --grant " + e.server.User + " prints what grants all that is needed"
	case database.Denied(err):
		return "GRANT CONNECT ON DATABASE " + database.Quoted(c.Database) + " TO " + database.Quoted(c.User)
	case e.server.User == "" && !database.Answered(err):
		return "see that the server runs, and that the URL names it"
	case errors.Is(err, pgconn.ErrReadOnlyConnection): // several hosts, and none can be changed
		return "name the primary in the URL, too"
	}
	return ""
}

// row reads one row.
func (e *examination) row(ctx context.Context, sql string, into ...any) error {
	return e.pool.QueryRow(ctx, sql, pgx.QueryExecModeExec).Scan(into...)
}

func (e *examination) checkTables(ctx context.Context) driver.Finding {
	layout := e.layout()
	made, err := layout.Find(ctx, e.pool)
	e.made = made
	misfit := layout.Misfit(made)
	switch {
	case database.Denied(err) && made.Strange == "":
		return driver.Finding{} // see the exchanges
	case err != nil:
		return doctor.Answer(e.Explain(err), e.remedy)
	case made.Strange != "":
		return doctor.Fail(doctor.EveryLock, "ask who made it, and why", "%v", misfit)
	case misfit != nil:
		return doctor.Fail(doctor.EveryLock, "use another schema= in the URL; or, if the version is larger, a newer version of this program; or drop the schema while nobody uses it, and have it made again", "%v", misfit)
	case !made.There:
		return doctor.Fail(doctor.EveryLock, "open the URL as a user who may make them, or have one run what interlock admin schema --grant "+e.server.User+" prints",
			"they are not in the schema %s", layout.Schema)
	}
	return doctor.Sound
}

// checkNews makes sure that waiters are told of grants.
func (e *examination) checkNews(ctx context.Context) driver.Finding {
	err := errors.New("there is a pooler in between: waiters look again and again, the more seldom the longer they wait")
	if !e.server.Pooled || e.listen != nil {
		err = e.hears(ctx)
	}
	if err != nil {
		return doctor.Warn("waiters are woken as soon as a lock is free", "add direct=URL, the URL of the server itself, for the one connection on which news arrive", "%v", err)
	}
	return doctor.Sound
}

// checkCrash says what a crash of the server means, and whether there was one.
func (e *examination) checkCrash(ctx context.Context) driver.Finding {
	if !e.made.Unlogged {
		return driver.Finding{} // the tables are logged, or see the others
	}
	layout := e.layout()
	var grace, longest time.Duration // in microseconds
	err := e.row(ctx, "SELECT coalesce((SELECT safe FROM "+layout.Name("sentinel")+"), 0) - "+database.NowUS+", longest FROM "+layout.Name("meta"), &grace, &longest)
	grace, longest = grace*time.Microsecond, longest*time.Microsecond
	switch {
	case err != nil:
		return driver.Finding{} // see the exchanges
	case grace > 0:
		return doctor.Warn("nothing is granted until then", "wait", "the server has crashed; leases of before may be held for another %v", grace.Round(time.Millisecond))
	case longest > 5*time.Minute:
		return doctor.Warn("nothing is granted for that long after a crash of the server",
			"use TTLs of seconds; to forget longer ones of which no session is left: UPDATE "+layout.Name("meta")+" SET longest = 15000000", "a TTL of %v was asked for once", longest)
	}
	return doctor.Sound
}

const lasting = "values, latches and leases of a fixed time outlast a crash of the server, or a failover"

func (e *examination) checkDisk(ctx context.Context) driver.Finding {
	var off string
	if err := e.row(ctx, "SELECT coalesce(pg_catalog.string_agg(name, ', '), '') FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'", &off); err != nil {
		return doctor.Unknown(lasting, database.Explain(err))
	}
	if off != "" {
		return doctor.Fail(lasting+"; and a power loss may damage all of the database", "switch it on in the configuration of the server", "off: %s", off)
	}
	return doctor.Sound
}

// checkStandbys says what a failover may lose.
func (e *examination) checkStandbys(ctx context.Context) driver.Finding {
	var all int
	var sync string
	if err := e.row(ctx, "SELECT count(*), current_setting('synchronous_standby_names') FROM pg_stat_replication", &all, &sync); err != nil {
		return doctor.Unknown(lasting, database.Explain(err))
	}
	promise, remedy := lasting, "synchronous_standby_names"
	if e.made.Version > 0 && !e.made.Unlogged {
		promise = "exclusion: a failover may lose grants that the standby has not received, and then two hold a lock"
		remedy += ", or tables that are unlogged: they begin empty on the new primary, and nothing is granted for a TTL"
	}
	if all > 0 && sync == "" {
		return doctor.Warn(promise, remedy, "%d standbys, none of which the server waits for", all)
	}
	return doctor.Sound
}
