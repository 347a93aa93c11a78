package pglock

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A commit that waits for a synchronous standby can be cancelled, by an administrator or
// a monitor. The server then has committed by itself, and the standby may lack it: the
// client is answered as if all were well, and a warning says so.

// warned is the key of a connection's data that is set by such a warning.
const warned = "interlock: warned"

// hearWarnings has new connections note warnings.
func hearWarnings(c *pgx.ConnConfig) {
	next := c.OnNotice
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == "01000" { // the text depends on the server's language
			conn.CustomData()[warned] = true
		}
		if next != nil {
			next(conn, n)
		}
	}
}

// confirmed makes a call on a connection. If a warning came with its answer, the answer is
// held back until a commit that follows has been waited for in full. If that fails, it is
// a call whose reply was lost.
func (s *store) confirmed(ctx context.Context, c *pgxpool.Conn, call func() error) error {
	data := c.Conn().PgConn().CustomData()
	for {
		delete(data, warned)
		if err := call(); err != nil || data[warned] == nil {
			return err
		}
		call = func() error {
			_, err := c.Exec(ctx, s.calls["confirm"], s.mode)
			return err
		}
	}
}
