// Package doctor examines PostgreSQL for whoever asks whether it is fit for locks.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

const (
	everyLock = "every lock: none can be acquired or renewed"
	lasting   = "values, latches and leases of a fixed time outlast a crash of the server"
	speed     = "speed"
	waking    = "speed: waiters are woken as soon as a lock is free"
)

// Doctor examines a server, and what of it a program like this one may use.
type Doctor struct {
	pool   *pgxpool.Pool
	layout database.Layout
	direct bool
	hears  func(context.Context) error

	database.Server
	made    database.Made
	unknown error   // why more is not known of what was made
	lacks   []right // of the user
}

// New is for the connections of a client, and the tables and functions that it expects. What is sent
// through these connections has to arrive where the client listens, as hears makes sure: on a connection
// of the same kind or, if it is direct, on another.
func New(pool *pgxpool.Pool, layout database.Layout, direct bool, hears func(context.Context) error) *Doctor {
	return &Doctor{pool: pool, layout: layout, direct: direct, hears: hears}
}

// Check is called once, for a client that is open or was refused.
func (d *Doctor) Check(ctx context.Context) []driver.Finding {
	began := time.Now()
	if err := d.meet(ctx); err != nil {
		return []driver.Finding{doctor.Of("server", d.unreachable(err))}
	}
	all := []driver.Finding{doctor.Of("server", doctor.Trip(time.Since(began)))}
	if d.made, d.unknown = d.layout.Find(ctx, d.pool); d.made.There {
		var err error
		if d.lacks, err = d.lacking(ctx); err != nil {
			d.unknown = err
		}
	}
	return append(all, doctor.Examine(ctx, []doctor.Check{
		// what was made, and who may use it
		{"version", d.checkVersion}, {"tables", d.checkTables}, {"rights", d.checkRights}, {"search path", d.checkPath},
		// exchanges and events
		{"writing", d.checkWriting}, {"news", d.checkNews},
		// what a crash or a failover loses
		{"crash", d.checkCrash}, {"disk", d.checkDisk}, {"standbys", d.checkStandbys},
		// speed
		{"timeouts", d.checkTimeouts}, {"connections", d.checkConnections}, {"vacuum", d.checkVacuum}, {"clock", d.checkClock},
	})...)
}

func (d *Doctor) meet(ctx context.Context) error {
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	d.Server, err = database.Meet(ctx, c)
	return err
}

// unreachable is the finding that the server cannot be asked for anything.
func (d *Doctor) unreachable(err error) driver.Finding {
	c := d.pool.Config().ConnConfig
	user, base := database.Quoted(c.User), database.Quoted(c.Database)
	var pg *pgconn.PgError
	remedy := "see the error: it names the reason"
	switch {
	case !database.Answered(err):
		remedy = "see that the server runs, and that the URL names it"
	case !errors.As(err, &pg): // several hosts, and none can be changed
		remedy = "name the primary in the URL, too"
	case strings.HasPrefix(pg.Code, "28"):
		remedy = "correct user and password of the URL, or ALTER ROLE " + user + " LOGIN PASSWORD '…'; see also pg_hba.conf of the server"
	case pg.Code == "3D000":
		remedy = "name another database in the URL, or CREATE DATABASE " + base
	case database.Denied(err):
		remedy = "GRANT CONNECT ON DATABASE " + base + " TO " + user
	case pg.Code == "57P03":
		remedy = "wait until the server has started; a standby that takes no connections stays so: name the primary"
	}
	return doctor.Fail(everyLock, remedy, "%v", explained(err))
}

// explained is an error as users of the client see it.
func explained(err error) error { return fmt.Errorf("postgres: %w", database.Explain(err)) }

// row reads one row.
func (d *Doctor) row(ctx context.Context, sql string, into ...any) error {
	return d.pool.QueryRow(ctx, sql, pgx.QueryExecModeExec).Scan(into...)
}

// failed is the finding that something could not be found out.
func (d *Doctor) failed(promise string, err error) driver.Finding {
	return doctor.Warn(promise, "see the error", "it could not be examined: %v", explained(err))
}

const newest = 150000 // the newest version that it is tested with

func (d *Doctor) checkVersion(context.Context) driver.Finding {
	v := d.Version
	switch {
	case v < database.Oldest:
		return doctor.Fail(everyLock, "use PostgreSQL 12 or later", "PostgreSQL %d", v/10000)
	case v/10000 < newest/10000:
		return doctor.Fine("PostgreSQL %d (the tests use %d)", v/10000, newest/10000)
	}
	return doctor.Fine("PostgreSQL %d", v/10000)
}
