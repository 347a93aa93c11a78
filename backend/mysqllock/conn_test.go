package mysqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/internal/errtest"
)

// fake counts what it is asked for.
type fake struct {
	complete
	texts, prepares, executes int
	fails                     error // what comes of a prepared statement
	during                    func()
}

func (f *fake) IsValid() bool { return true }

func (f *fake) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	f.texts++
	if f.during != nil {
		f.during()
	}
	return driver.RowsAffected(1), nil
}

func (f *fake) PrepareContext(context.Context, string) (driver.Stmt, error) {
	f.prepares++
	return statement{of: f}, nil
}

type statement struct {
	driver.Stmt
	of *fake
}

func (s statement) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	s.of.executes++
	return driver.RowsAffected(1), s.of.fails
}

func connOf(t *testing.T, f *fake) *conn {
	one, other := net.Pipe()
	t.Cleanup(func() { one.Close(); other.Close() })
	return &conn{complete: f, net: one}
}

// Promise: a statement that the server, or a proxy, cannot prepare or has lost is sent as it
// is, once.
func TestLostPreparedStatement(t *testing.T) {
	t.Parallel()
	for _, number := range []uint16{erUnknownStatement, erNotPreparable, erTooManyPrepared, erPrepareAgain} {
		f := &fake{fails: &mysql.MySQLError{Number: number}}
		c := connOf(t, f)
		const times = worthPreparing + 5
		for range times {
			if _, err := c.execQuick(t.Context(), "text", nil); err != nil {
				t.Fatal(number, err)
			}
		}
		if f.texts != times || f.prepares != 1 || f.executes != 1 {
			t.Errorf("%d: %d times as it is, %d prepared, %d executed", number, f.texts, f.prepares, f.executes)
		}
	}
}

// Promise: a prepared statement whose effect is not known is not sent again.
func TestPreparedStatementFails(t *testing.T) {
	t.Parallel()
	f := &fake{fails: mysql.ErrInvalidConn}
	c := connOf(t, f)
	for range worthPreparing {
		errtest.Must(c.execQuick(t.Context(), "text", nil))(t)
	}
	if _, err := c.execQuick(t.Context(), "text", nil); !errors.Is(err, mysql.ErrInvalidConn) || f.texts != worthPreparing {
		t.Errorf("%v, and %d times as it is", err, f.texts)
	}
}

// Promise: a statement that succeeds while its caller gives up has succeeded, and its
// connection is used no more.
func TestGivenUpWhileItSucceeds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{during: cancel}
	c := connOf(t, f)
	if !c.IsValid() {
		t.Error("a new connection is not valid")
	}
	if _, err := c.ExecContext(ctx, "text", nil); err != nil || c.IsValid() {
		t.Errorf("%v, and it may be used again: %t", err, c.IsValid())
	}
	if _, err := c.ExecContext(ctx, "text", nil); !errors.Is(err, context.Canceled) || f.texts != 1 {
		t.Errorf("%v, and %d statements of a caller that had given up", err, f.texts)
	}
}

// Promise: an answer that the MySQL driver cannot read, at which it panics, is an error, and ends the
// connection.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	short := []byte{1}
	f := &fake{during: func() { short = short[2:] }}
	c := connOf(t, f)
	if _, err := c.ExecContext(t.Context(), "text", nil); !errors.Is(err, errAnswer) {
		t.Errorf("it says %v", err)
	}
	if c.IsValid() {
		t.Error("the connection is used again")
	}
}
