package rowlock

import (
	"time"

	"github.com/interlock-go/interlock/internal/rows"
)

// Option changes how one call locks.
type Option func(*rows.Config)

// Wait bounds the wait for a lock, after which the call fails with ErrBusy; 0
// and less fail at once. Without it the context bounds the wait, and what the
// database is set to: lock_timeout of PostgreSQL, innodb_lock_wait_timeout of
// MySQL and MariaDB (50 s by default), busy_timeout of SQLite.
//
// On PostgreSQL the bound holds for each lock that the statement needs; if there
// is a line for the row these are two, a place at its front and then the row. A
// lock of the whole table, as of ALTER TABLE, is waited for even with 0. On MySQL
// and MariaDB the server waits for whole seconds; the rest is spent with trying
// again and again, without a place in the line. On SQLite it has an effect in
// [Table.Begin] only.
func Wait(d time.Duration) Option {
	return func(c *rows.Config) { c.Wait = max(d, 0) }
}

// Shared locks a row for reading: others can share it, and nobody can change it
// until the last of them is through. Who shares a row and then changes it
// deadlocks with another one who does the same. On SQLite it is like any other
// lock.
func Shared() Option {
	return func(c *rows.Config) { c.Shared = true }
}

func configOf(opts []Option) rows.Config {
	c := rows.Config{Wait: rows.Forever}
	for _, o := range opts {
		o(&c)
	}
	return c
}
