package mysqllock

import "github.com/interlock-go/interlock/backend/mysqllock/internal/database"

// Errors of the server.
const (
	erDeadlock        = 1213
	erLockWaitTimeout = 1205
	erParse           = 1064
	erCommit          = 1180
	erCheckRead       = 1020 // MariaDB: the row is newer than the transaction's view of it
	erUnknownVariable = 1193
	erInterrupted     = 1317
	erTimedOut        = 1969 // MariaDB: max_statement_time
	erTimedOutToo     = 3024 // MySQL: max_execution_time
)

// undone reports whether an exchange has certainly had no effect, since it got into
// the way of another one.
func undone(err error) bool { return database.Number(err, erDeadlock, erLockWaitTimeout, erCheckRead) }

// Explain says what an error means to whoever wrote the URL, and marks it if it will be
// the same next time.
func (s *store) Explain(err error) error { return database.Explain(err) }
