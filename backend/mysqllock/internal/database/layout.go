package database

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// Layout is the tables and procedures that a client and its doctor expect.
type Layout struct {
	Prefix  string // of their names
	Version int
	Objects []Object
}

// Object is a table or a procedure.
type Object struct {
	Kind, Name string
	Column     string // the first one of a table
}

// Kinds of objects, as SQL has them.
const (
	Table     = "TABLE"
	Procedure = "PROCEDURE"
)

// Found is the version of the tables; the error is Missing if they are not there.
func (l Layout) Found(ctx context.Context, on *sql.Conn) (found int, err error) {
	err = on.QueryRowContext(ctx, "SELECT layout FROM "+l.Prefix+"meta WHERE one = 1").Scan(&found)
	if err == nil && found != l.Version {
		err = driver.Permanent(fmt.Errorf("mysql: the tables %s* have layout %d; this version needs %d", l.Prefix, found, l.Version))
	}
	return found, err
}

// Account is a user, or user@host, for SQL.
func Account(user string) string {
	name, host, _ := strings.Cut(user, "@")
	if host == "" {
		host = "%"
	}
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'" }
	return quote(name) + "@" + quote(host)
}

// Clock is the server's, in microseconds. It does not depend on time zones.
const Clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// Discard closes a connection of a pool for good: the server undoes what is open on it.
func Discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = conn.Close()
}
