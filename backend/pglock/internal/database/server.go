// Package database finds out what is at the other end of a connection: the server, the tables and
// functions of Interlock, and what errors mean. The client of pglock and its doctor both need that.
package database

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Oldest is the oldest version of PostgreSQL that has all that functions use.
const Oldest = 120000

// ReadCommitted is the isolation of transactions without which calls fail under load.
const ReadCommitted = "read committed"

// Server is what is known of who answers.
type Server struct {
	Version   int    // of the server
	Pooled    bool   // there is a pooler in between
	Standby   bool   // nothing can be changed
	ReadOnly  bool   // nor here, unless a transaction says otherwise
	Isolation string // of transactions
	User      string
}

// Meet finds out who answers on a connection.
func Meet(ctx context.Context, c *pgxpool.Conn) (s Server, err error) {
	var pid uint32
	var readOnly string
	err = c.QueryRow(ctx, `SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('transaction_isolation'),
		current_setting('transaction_read_only'), current_setting('server_version_num')::int, current_user::text`, pgx.QueryExecModeExec).
		Scan(&pid, &s.Standby, &s.Isolation, &readOnly, &s.Version, &s.User)
	// A pooler that hands out connections of its own says another process id than
	// the server. It may not know statements that were prepared.
	s.Pooled = pid != c.Conn().PgConn().PID()
	s.ReadOnly = readOnly == "on"
	return s, err
}

// Set is the statement that changes how transactions of the user begin.
func (s Server) Set(what, value string) string {
	return "ALTER ROLE " + Quoted(s.User) + " SET default_transaction_" + what + " = " + value
}
