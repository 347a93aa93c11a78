// Package mysqllock runs Interlock on MariaDB and MySQL.
//
//	import _ "github.com/interlock-go/interlock/backend/mysqllock"
//
//	c, err := interlock.Open(ctx, "mysql://user:password@host/database")
//
// Every call is one procedure, whose transaction locks the row of one queue. Whoever
// leaves lets in the next one in the same transaction and wakes its client alone, by
// ending a statement that this one has parked: see Listen.
//
// A ticket is held if and only if its number is at most the last granted number of its
// queue, so that a grant changes no ticket. The only ticket of a queue is kept in the
// queue's row. A session has one end, which a heartbeat moves, whatever the number of its
// tickets.
//
// What a server promises depends on innodb_flush_log_at_trx_commit: see docs/mysql.md.
package mysqllock
