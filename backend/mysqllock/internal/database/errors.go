// Package database finds out what was made in a database, by whom, and what errors mean. The client
// of mysqllock and its doctor both need that.
package database

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

// ErrReadOnly is a server that only follows another one.
var ErrReadOnly = errors.New("the server is read-only")

// Number reports whether the server has refused a statement with one of these.
func Number(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && slices.Contains(numbers, e.Number)
}

// Answered reports whether an error is the word of a server.
func Answered(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) || errors.Is(err, ErrReadOnly)
}

// ReadOnly reports whether nothing can be changed on the server, which may be so for the
// second of a switch-over.
func ReadOnly(err error) bool { return Number(err, 1290, 1792, 1836) }

// Full reports whether the server has as many connections as it may, of all users or of
// this one.
func Full(err error) bool { return Number(err, erTooMany, erTooManyOfUser, erUserLimit) }

const (
	erTooMany       = 1040
	erTooManyOfUser = 1203
	erUserLimit     = 1226 // also of statements in an hour; it says which
)

// limitOf is the setting that an error that is full is about.
func limitOf(err error) string {
	switch {
	case Number(err, erUserLimit) && strings.Contains(strings.ToLower(err.Error()), "_per_hour"):
		return "the limit is one of an hour of this user, see SHOW GRANTS: a client that runs makes few connections, but thousands of exchanges"
	case Number(err, erTooMany):
		return "the server's limit is its setting max_connections"
	case Number(err, erTooManyOfUser):
		return "the server's limit is its setting max_user_connections"
	}
	return "the limit is MAX_USER_CONNECTIONS of this user, see SHOW GRANTS, or max_user_connections of the server"
}

const (
	erNoSuchTable     = 1146
	erNoSuchProcedure = 1305
)

// Missing reports whether the tables or procedures are not there.
func Missing(err error) bool { return Number(err, erNoSuchTable, erNoSuchProcedure) }

// Denied reports whether the user lacks a right.
func Denied(err error) bool { return Number(err, 1142, 1143, 1227, 1370, 1410) }

// Explain says what an error means to whoever wrote the URL, and marks it if it will be
// the same next time.
func Explain(err error) error {
	hint := ""
	switch {
	case driver.IsPermanent(err):
		return err
	case Number(err, 1045, 1698, 1524, 1251):
		hint = "user and password of the URL, and tls=true if the server wants TLS of this user"
	case Number(err, 1044, 1049):
		hint = "the database of the URL, and the user's rights in it"
	case Denied(err):
		err, hint = fmt.Errorf("%w (interlock admin schema prints what makes the tables)", err), doctor.Hint
	case Missing(err):
		hint = "the tables or procedures are missing"
	case ReadOnly(err):
		return fmt.Errorf("%w (the server is read-only: a replica?)", err)
	case Full(err):
		return fmt.Errorf("%w (%s; with a smaller max_connections in their URLs clients need fewer)", err, limitOf(err))
	case Number(err, 1366, 1406):
		hint = "a value does not fit its column"
	case errors.Is(err, mysql.ErrNoTLS):
		hint = "the server has no TLS: without it, leave tls out"
	case Number(err, 3159):
		hint = "add tls=true"
	default:
		if hint := tlsoption.Hint(err); hint != "" {
			return fmt.Errorf("%w (%s)", err, hint)
		}
		return err
	}
	return driver.Permanent(fmt.Errorf("%w (%s)", err, hint))
}
