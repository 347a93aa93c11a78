package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/driver"
)

// oldest is the oldest version of PostgreSQL that has all that functions use.
const oldest = 120000

// open finds out what is at the other end, and makes the tables if they are not
// there.
func (s *store) open(ctx context.Context) error {
	peer, err := s.meet(ctx)
	if err == nil {
		err = peer.unfit()
	}
	if err != nil {
		return s.Explain(err)
	}
	s.met(peer)
	if err := s.migrate(ctx); err != nil {
		return s.Explain(err)
	}
	s.silent = s.pooled && s.listen == nil
	if s.listen != nil {
		if err := s.hears(ctx); err != nil {
			return fmt.Errorf("postgres: direct: %w", explain(err))
		}
	}
	return nil
}

// peer is what is known of who answers.
type peer struct {
	version   int    // of the server
	pooled    bool   // there is a pooler in between
	standby   bool   // nothing can be changed
	readOnly  bool   // nor here, unless a transaction says otherwise
	isolation string // of transactions
	user      string
}

func (s *store) met(p peer) {
	s.peer = p
	if p.pooled {
		s.mode = pgx.QueryExecModeExec
	}
}

// meet finds out who answers.
func (s *store) meet(ctx context.Context) (p peer, err error) {
	c, err := s.pool.Acquire(ctx)
	if s.pool.own && refusesPath(err) {
		s.pool.wide.Store(true)
		c, err = s.pool.Acquire(ctx)
	}
	if err != nil {
		return p, err
	}
	defer c.Release()
	var pid uint32
	var readOnly string
	err = c.QueryRow(ctx, `SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('transaction_isolation'),
		current_setting('transaction_read_only'), current_setting('server_version_num')::int, current_user::text`, pgx.QueryExecModeExec).
		Scan(&pid, &p.standby, &p.isolation, &readOnly, &p.version, &p.user)
	// A pooler that hands out connections of its own says another process id than
	// the server. It may not know statements that were prepared.
	p.pooled = pid != c.Conn().PgConn().PID()
	p.readOnly = readOnly == "on"
	return p, err
}

// refusesPath reports whether a pooler knows no such parameter of a connection.
func refusesPath(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "08P01" && strings.Contains(pg.Message, "search_path")
}

const readCommitted = "read committed"

// unfit says why the server cannot be used.
func (p peer) unfit() error {
	switch {
	case p.version < oldest:
		return driver.Permanent(fmt.Errorf("PostgreSQL %d is too old: 12 is needed", p.version/10000))
	case p.standby:
		return driver.Permanent(errors.New("this server is a standby, where nothing can be changed: name the primary, or both (host1,host2)"))
	case p.readOnly:
		return driver.Permanent(errors.New("transactions are read-only here (default_transaction_read_only)"))
	case p.isolation != readCommitted:
		return driver.Permanent(fmt.Errorf("transactions are %s here, which would make calls fail under load: %s", p.isolation, p.set("isolation", "'"+readCommitted+"'")))
	}
	return nil
}

// set is the statement that changes how transactions of the user begin.
func (p peer) set(what, value string) string {
	return "ALTER ROLE " + quoted(p.user) + " SET default_transaction_" + what + " = " + value
}
