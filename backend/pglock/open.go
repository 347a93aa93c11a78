package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
)

// open finds out what is at the other end, and makes the tables if they are not
// there.
func (s *store) open(ctx context.Context) error {
	server, err := s.meet(ctx)
	if err == nil {
		err = unfit(server)
	}
	if err != nil {
		return s.Explain(err)
	}
	if err := s.migrate(ctx); err != nil {
		return s.Explain(err)
	}
	s.silent = server.Pooled && s.listen == nil
	s.inline = s.pool.own && !s.pool.wide.Load() && !server.Pooled
	if s.listen != nil {
		if err := s.hears(ctx); err != nil {
			return fmt.Errorf("postgres: direct: %w", database.Explain(err))
		}
	}
	return nil
}

// meet finds out who answers, and adapts connections and statements to a pooler.
func (s *store) meet(ctx context.Context) (server database.Server, err error) {
	c, err := s.pool.Acquire(ctx)
	if s.pool.own && refusesPath(err) {
		s.pool.wide.Store(true)
		c, err = s.pool.Acquire(ctx)
	}
	if err != nil {
		return server, err
	}
	defer c.Release()
	if server, err = database.Meet(ctx, c); server.Pooled {
		s.mode = pgx.QueryExecModeExec
	}
	return server, err
}

// refusesPath reports whether a pooler does not know a parameter of a connection.
func refusesPath(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "08P01" && strings.Contains(pg.Message, "startup parameter")
}

// unfit says why the server cannot be used.
func unfit(s database.Server) error {
	switch {
	case s.Version < database.Oldest:
		return driver.Permanent(fmt.Errorf("PostgreSQL %d is too old: 12 is needed", s.Version/10000))
	case s.Standby:
		return driver.Permanent(errors.New("this server is a standby, where nothing can be changed: name the primary, or both (host1,host2)"))
	case s.ReadOnly:
		return driver.Permanent(fmt.Errorf("transactions are read-only here: %s, or where else the setting comes from", s.Set("read_only", "off")))
	case s.Isolation != database.ReadCommitted:
		return driver.Permanent(fmt.Errorf("transactions are %s here, which would make calls fail under load: %s", s.Isolation, s.Set("isolation", "'"+database.ReadCommitted+"'")))
	}
	return nil
}

// Explain says what an error means for whoever wrote the URL.
func (s *store) Explain(err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if s.pool.own && errors.As(err, &pg) && pg.Code == database.ReadOnlyTransaction {
		s.pool.renew() // it was the primary until now: new connections lead to the other one
	}
	return fmt.Errorf("postgres: %w", database.Explain(err))
}
