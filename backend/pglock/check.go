package pglock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
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
	known  bool // whose the tables and functions are, and that they fit
}

// Check is called for interlock doctor, and for programs that ask whether their backend is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	e := &examination{store: s}
	var err error
	if e.server, err = s.meet(ctx); err == nil {
		err = unfit(e.server)
	}
	checks := []doctor.Check{{"server", "it answers, and can be written", func(context.Context) driver.Finding {
		if err != nil {
			err = s.Explain(err)
		}
		return doctor.Exchanges(err, e.remedy)
	}}}
	if err == nil {
		checks = append(checks, []doctor.Check{
			{"tables", "they fit this program", e.checkTables},
			{"exchanges", "locks and values can be used", e.checkExchanges},
			{"listing", "names can be read", e.checkListing},
			{"news", "they arrive", e.checkNews},
			{"crash", "a crash of the server loses no lock that is held", e.checkCrash},
			{"disk", "the server waits for it", e.checkDisk},
			{"standbys", "a failover loses nothing", e.checkStandbys},
			{"clock", "it agrees with that of this machine", e.checkClock},
		}...)
	}
	return doctor.Examine(ctx, checks)
}

// remedy says what to do about an error of the server; "" if the error names the reason.
func (e *examination) remedy(err error) string {
	c := e.pool.Config().ConnConfig
	user, base := database.Quoted(c.User), database.Quoted(c.Database)
	var pg *pgconn.PgError
	known := errors.As(err, &pg)
	switch {
	case e.server.Standby:
		return "name the primary in the URL, or all hosts (host1,host2)"
	case e.server.ReadOnly:
		return e.server.Set("read_only", "off") + ", or where else the setting comes from"
	case e.server.Isolation != "" && e.server.Isolation != database.ReadCommitted:
		return e.server.Set("isolation", "'"+database.ReadCommitted+"'")
	case e.server.Version > 0 && e.server.Version < database.Oldest:
		return "use PostgreSQL 12 or later"
	case e.server.User != "" && database.Denied(err):
		return "interlock admin schema --only-grants --grant " + e.server.User + " prints what grants all that is needed"
	case !database.Answered(err):
		return "see that the server runs, and that the URL names it"
	case !known: // several hosts, and none can be changed
		return "name the primary in the URL, too"
	case strings.HasPrefix(pg.Code, "28"):
		return "correct user and password of the URL, or ALTER ROLE " + user + " LOGIN PASSWORD '…'; see also pg_hba.conf of the server"
	case pg.Code == "3D000":
		return "name another database in the URL, or CREATE DATABASE " + base
	case database.Denied(err):
		return "GRANT CONNECT ON DATABASE " + base + " TO " + user
	case pg.Code == "57P03":
		return "wait until the server has started; a standby that takes no connections stays so: name the primary"
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
	misfit := layout.Misfit(made)
	switch {
	case database.Denied(err) && made.Strange == "":
		e.known = true
		return driver.Finding{} // see the exchanges
	case err != nil:
		return doctor.Fail(doctor.EveryLock, "see the error", "%v", database.Explain(err))
	case made.Strange != "":
		return doctor.Fail(doctor.EveryLock, "ask who made it, and why; if that is right, add schema_owner= to the URL", "%v", misfit)
	case misfit != nil && made.Version > layout.Version:
		return doctor.Fail(doctor.EveryLock, "use another schema= in the URL, or a newer version of this program", "%v", misfit)
	case misfit != nil:
		return doctor.Fail(doctor.EveryLock, "use another schema= in the URL, or drop the schema while nobody uses it, and have it made again", "%v", misfit)
	case !made.There:
		return doctor.Fail(doctor.EveryLock, "open the URL as a user who may make them, or have one run what interlock admin schema --grant "+e.server.User+" prints",
			"they are not in the schema %s", layout.Schema)
	}
	e.made, e.known = made, true
	return doctor.Sound
}

func (e *examination) checkExchanges(ctx context.Context) driver.Finding {
	if !e.known { // functions of a stranger are not called
		return driver.Finding{}
	}
	return doctor.Exchanges(doctor.Try(ctx, e.store, exchange.NewMailbox(), "doctor/"+exchange.NewID()+"/value"), e.remedy)
}

func (e *examination) checkListing(ctx context.Context) driver.Finding {
	if !e.known {
		return driver.Finding{}
	}
	return doctor.Listing(ctx, e.store, e.remedy)
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
		return doctor.Warn("nothing is granted until then", "wait", "the server has crashed; leases of before may be held for another %v", doctor.Short(grace))
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
	err := e.row(ctx, "SELECT count(*), current_setting('synchronous_standby_names') FROM pg_stat_replication", &all, &sync)
	const remedy, detail = "synchronous_standby_names", "%d standbys, none of which the server waits for"
	switch {
	case err != nil:
		return doctor.Unknown(lasting, database.Explain(err))
	case all > 0 && sync == "" && e.made.Version > 0 && !e.made.Unlogged:
		return doctor.Warn("exclusion: a failover may lose grants that the standby has not received, and then two hold a lock",
			remedy+", or tables that are unlogged: they begin empty on the new primary, and nothing is granted for a TTL", detail, all)
	case all > 0 && sync == "":
		return doctor.Warn(lasting, remedy, detail, all)
	}
	return doctor.Sound
}

func (e *examination) checkClock(ctx context.Context) driver.Finding {
	began := time.Now()
	var now int64
	if err := e.row(ctx, "SELECT "+database.NowUS, &now); err != nil {
		return doctor.Unknown(doctor.Exclusion, database.Explain(err))
	}
	return doctor.Clock(doctor.Ahead(time.UnixMicro(now), began, time.Now()))
}
