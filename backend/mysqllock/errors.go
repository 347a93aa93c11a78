package mysqllock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// number reports whether the server has refused a statement with one of these.
func number(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && slices.Contains(numbers, e.Number)
}

// Errors of the server.
const (
	erDeadlock        = 1213
	erLockWaitTimeout = 1205
	erCheckRead       = 1020 // MariaDB: the row is newer than the transaction's view of it
	erNoSuchTable     = 1146
	erNoSuchProcedure = 1305
	erUnknownVariable = 1193
	erInterrupted     = 1317
	erTimedOut        = 1969 // MariaDB: max_statement_time
	erTimedOutToo     = 3024 // MySQL: max_execution_time
)

// undone reports whether an exchange has certainly had no effect, since it got into
// the way of another one.
func undone(err error) bool { return number(err, erDeadlock, erLockWaitTimeout, erCheckRead) }

// readOnly reports whether nothing can be changed on the server, which may be so for the
// second of a switch-over.
func readOnly(err error) bool { return number(err, 1290, 1792, 1836) }

// full reports whether the server has as many connections as it may, of all users or of
// this one.
func full(err error) bool { return number(err, erTooMany, erTooManyOfUser, erUserLimit) }

const (
	erTooMany       = 1040
	erTooManyOfUser = 1203
	erUserLimit     = 1226 // also of statements in an hour; it says which
)

// limitOf is the setting that an error that is full is about.
func limitOf(err error) string {
	switch {
	case number(err, erUserLimit) && strings.Contains(strings.ToLower(err.Error()), "_per_hour"):
		return "the limit is one of an hour of this user, see SHOW GRANTS: a client that runs makes few connections, but thousands of exchanges"
	case number(err, erTooMany):
		return "the server's limit is its setting max_connections"
	case number(err, erTooManyOfUser):
		return "the server's limit is its setting max_user_connections"
	}
	return "the limit is MAX_USER_CONNECTIONS of this user, see SHOW GRANTS, or max_user_connections of the server"
}

// missing reports whether the tables or procedures are not there.
func missing(err error) bool { return number(err, erNoSuchTable, erNoSuchProcedure) }

// denied reports whether the user lacks a right.
func denied(err error) bool { return number(err, 1142, 1143, 1227, 1370, 1410) }

// Explain says what an error means to whoever wrote the URL, and marks it if it will be
// the same next time.
func (s *store) Explain(err error) error {
	hint := ""
	switch {
	case driver.IsPermanent(err):
		return err
	case number(err, 1045, 1698, 1524, 1251):
		hint = "user and password of the URL"
	case number(err, 1044, 1049):
		hint = "the database of the URL, and the user's rights in it"
	case denied(err):
		err, hint = fmt.Errorf("%w (interlock schema prints what makes the tables)", err), doctor.Hint
	case missing(err):
		hint = "the tables or procedures are missing"
	case readOnly(err):
		return fmt.Errorf("%w (the server is read-only: a replica?)", err)
	case full(err):
		return fmt.Errorf("%w (%s; with a smaller max_connections in their URLs clients need fewer)", err, limitOf(err))
	case number(err, 1366, 1406):
		hint = "a value does not fit its column"
	case errors.Is(err, mysql.ErrNoTLS):
		hint = "the server has no TLS: without it, leave tls out"
	case number(err, 3159):
		hint = "add tls=true"
	default:
		return err
	}
	return driver.Permanent(fmt.Errorf("%w (%s)", err, hint))
}
