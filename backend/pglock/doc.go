// Package pglock runs Interlock on PostgreSQL.
//
//	import _ "github.com/interlock-go/interlock/backend/pglock"
//
//	c, err := interlock.Open(ctx, "postgres://user@127.0.0.1/database")
//
// Every call is one short transaction, a call of a function that the schema brings
// along. No connection is kept while a lock is held or waited for, but for one of
// each client that waits: the database notifies it of grants. So it works behind a
// pooler that pools transactions, if the option direct says where that one connection
// leads to.
//
// # Promises
//
// Time is the clock of the database server. Locks are in unlogged tables, which a
// crash of the server empties: then nothing is granted until every lease of before
// has run out, and tokens go on above those of before. The same comes after a
// failover to a standby. Values, latches and leases of a fixed time are logged and
// survive both, as far as the standby has received them.
package pglock
