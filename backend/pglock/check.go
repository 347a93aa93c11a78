package pglock

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

const (
	everyLock = "every lock: none can be acquired or renewed"
	lasting   = "values, latches and leases of a fixed time outlast a crash of the server"
	speed     = "speed"
	waking    = "speed: waiters are woken as soon as a lock is free"
)

// Check examines the server, and what of it a program like this one may use.
func (s *store) Check(ctx context.Context) []driver.Finding {
	began := time.Now()
	_, err := s.meet(ctx)
	if err != nil {
		return []driver.Finding{doctor.Of("server", doctor.Fail(everyLock, "see that the server runs, and that the URL names it", "%v", s.Explain(err)))}
	}
	all := []driver.Finding{doctor.Of("server", doctor.Trip(time.Since(began)))}
	for _, c := range []struct {
		name string
		of   func(context.Context) driver.Finding
	}{
		{"version", s.checkVersion},
		{"tables", s.checkTables},
		{"rights", s.checkRights},
		{"writing", s.checkWriting},
		{"news", s.checkNews},
		{"crash", s.checkCrash},
		{"disk", s.checkDisk},
		{"standbys", s.checkStandbys},
		{"timeouts", s.checkTimeouts},
		{"connections", s.checkConnections},
		{"vacuum", s.checkVacuum},
		{"clock", s.checkClock},
	} {
		all = append(all, doctor.Of(c.name, c.of(ctx)))
	}
	return all
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

func (s *store) checkVersion(context.Context) driver.Finding {
	if s.version/10000 < newest/10000 {
		return doctor.Fine("PostgreSQL %d (the tests use %d)", s.version/10000, newest/10000)
	}
	return doctor.Fine("PostgreSQL %d", s.version/10000)
}
