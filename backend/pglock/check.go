package pglock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

const (
	everyLock = "every lock: none can be acquired or renewed"
	lasting   = "values, latches and leases of a fixed time outlast a crash of the server"
	speed     = "speed"
	waking    = "speed: waiters are woken as soon as a lock is free"
)

// examine is for a URL that open refuses. A store that was not opened can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	s, err := storeOf(u)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p, err := s.meet(ctx)
	if err != nil && !answered(err) {
		return nil, s.Explain(err)
	}
	s.met(p)
	return s.Check(ctx), nil
}

// exam is what checks have in common.
type exam struct {
	*store
	peer
	made
	unknown error   // why more is not known of what was made
	lacks   []right // of the user
}

// Check examines the server, and what of it a program like this one may use.
func (s *store) Check(ctx context.Context) []driver.Finding {
	began := time.Now()
	x := &exam{store: s}
	var err error
	if x.peer, err = s.meet(ctx); err != nil {
		return []driver.Finding{doctor.Of("server", s.unreachable(err))}
	}
	all := []driver.Finding{doctor.Of("server", doctor.Trip(time.Since(began)))}
	if x.made, x.unknown = s.find(ctx, s.pool); x.there {
		var err error
		if x.lacks, err = s.lacking(ctx); err != nil {
			x.unknown = err
		}
	}
	for _, c := range []struct {
		name string
		of   func(context.Context) driver.Finding
	}{
		{"version", x.checkVersion},
		{"tables", x.checkTables},
		{"rights", x.checkRights},
		{"search path", x.checkPath},
		{"writing", x.checkWriting},
		{"news", x.checkNews},
		{"crash", x.checkCrash},
		{"disk", s.checkDisk},
		{"standbys", x.checkStandbys},
		{"timeouts", s.checkTimeouts},
		{"connections", s.checkConnections},
		{"vacuum", s.checkVacuum},
		{"clock", s.checkClock},
	} {
		if f := c.of(ctx); f != (driver.Finding{}) {
			all = append(all, doctor.Of(c.name, f))
		}
	}
	return all
}

// answered reports whether an error is the word of a server.
func answered(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) || errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
}

// unreachable is the finding that the server cannot be asked for anything.
func (s *store) unreachable(err error) driver.Finding {
	c := s.pool.Config().ConnConfig
	user, database := quoted(c.User), quoted(c.Database)
	var pg *pgconn.PgError
	remedy := "see the error: it names the reason"
	switch {
	case !answered(err):
		remedy = "see that the server runs, and that the URL names it"
	case !errors.As(err, &pg): // several hosts, of which none can be changed
		remedy = "name the primary in the URL, too"
	case strings.HasPrefix(pg.Code, "28"):
		remedy = "correct user and password of the URL, or ALTER ROLE " + user + " LOGIN PASSWORD '…'; see also pg_hba.conf of the server"
	case pg.Code == "3D000":
		remedy = "name another database in the URL, or CREATE DATABASE " + database
	case denied(err):
		remedy = "GRANT CONNECT ON DATABASE " + database + " TO " + user
	case pg.Code == "57P03":
		remedy = "wait until the server has started; a standby that takes no connections stays so: name the primary"
	}
	return doctor.Fail(everyLock, remedy, "%v", s.Explain(err))
}

// row reads one row.
func (s *store) row(ctx context.Context, sql string, into ...any) error {
	return s.pool.QueryRow(ctx, sql, pgx.QueryExecModeExec).Scan(into...)
}

// failed is the finding that something could not be found out.
func (s *store) failed(promise string, err error) driver.Finding {
	return doctor.Warn(promise, "see the error", "it could not be examined: %v", s.Explain(err))
}

const newest = 150000 // the newest version that it is tested with

func (x *exam) checkVersion(context.Context) driver.Finding {
	v := x.peer.version
	switch {
	case v < oldest:
		return doctor.Fail(everyLock, "use PostgreSQL 12 or later", "PostgreSQL %d", v/10000)
	case v/10000 < newest/10000:
		return doctor.Fine("PostgreSQL %d (the tests use %d)", v/10000, newest/10000)
	}
	return doctor.Fine("PostgreSQL %d", v/10000)
}
