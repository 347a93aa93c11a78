package mysqllock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
)

// conn is a connection of a pool of the store's own. It ends a statement whose context ends
// as the MySQL driver does, by closing what it runs over, but does not wake a goroutine at
// the beginning and at the end of each one. What the server has prepared stays as long as
// the connection.
type conn struct {
	complete
	net  net.Conn
	dead bool   // net was closed, or will be at once
	gone func() // says that there is one connection less

	link     *link // once it was greeted
	quick    int   // statements that could have been prepared, so far
	prepared map[string]driver.Stmt
	refused  bool // the server prepares nothing
}

// complete is what the MySQL driver's connections can do.
type complete interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// Close is called once, by the pool.
func (c *conn) Close() error {
	c.gone()
	return c.complete.Close()
}

func (c *conn) IsValid() bool { return !c.dead && c.complete.IsValid() }

func (c *conn) Ping(ctx context.Context) error { return c.until(ctx, c.complete.Ping) }

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (made driver.Result, err error) {
	err = c.until(ctx, func(ctx context.Context) (err error) {
		made, err = c.complete.ExecContext(ctx, text, args)
		return err
	})
	return made, err
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &rows{ctx: ctx, of: c, stop: c.closeAfter(ctx)}
	err := c.careful(func() error {
		made, err := c.complete.QueryContext(context.WithoutCancel(ctx), text, args)
		if err == nil {
			r.RowsNextResultSet = made.(driver.RowsNextResultSet)
		}
		return err
	})
	if err != nil {
		return nil, r.end(err)
	}
	return r, nil
}

// rows ends with the context until all of it is read: the MySQL driver reads the rest of an answer
// without one, and would wait for ever for what does not come.
type rows struct {
	driver.RowsNextResultSet
	ctx  context.Context
	of   *conn
	stop func() bool
}

func (r *rows) Next(into []driver.Value) error {
	return r.why(r.of.careful(func() error { return r.RowsNextResultSet.Next(into) }))
}

func (r *rows) NextResultSet() error { return r.why(r.of.careful(r.RowsNextResultSet.NextResultSet)) }

func (r *rows) Close() error { return r.end(r.of.careful(r.RowsNextResultSet.Close)) }

// why is the end of the context, if that is why something failed.
func (r *rows) why(err error) error {
	if err != nil && err != io.EOF && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	return err
}

func (r *rows) end(err error) error { return r.of.ended(r.ctx, r.stop, err) }

// until makes a call that ends with the context, though it is not told of that.
func (c *conn) until(ctx context.Context, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := c.closeAfter(ctx)
	return c.ended(ctx, stop, c.careful(func() error { return call(context.WithoutCancel(ctx)) }))
}

// careful makes a call, after which the connection is not used again if the server's answer could
// not be read.
func (c *conn) careful(call func() error) error {
	err := careful(call)
	if errors.Is(err, errAnswer) {
		c.dead = true
	}
	return err
}

var errAnswer = errors.New("mysql: the server answers what no MySQL does")

// careful makes a call of the MySQL driver, which takes an answer to be as long as it has to be, and
// panics where it is not.
func careful(call func() error) (err error) {
	defer func() {
		switch what := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("%w: %v", errAnswer, what)
		default:
			panic(what)
		}
	}()
	return call()
}

// closeAfter closes what the connection runs over when the context ends, unless it is stopped.
func (c *conn) closeAfter(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.net.Close() })
}

// ended is the error of a call after which nothing is left to read.
func (c *conn) ended(ctx context.Context, stop func() bool, err error) error {
	if database.ReadOnly(err) {
		c.dead = true // another one may lead to the primary
	}
	if !stop() {
		c.dead = true
		if err != nil {
			return ctx.Err()
		}
	}
	return err
}

// worthPreparing is how many statements a connection makes before it has any prepared: a
// server can keep a few thousand for all of its clients.
const worthPreparing = 20

// Errors of servers, and of proxies, that cannot prepare a statement, or have lost it.
const (
	erUnknownStatement = 1243
	erNotPreparable    = 1295
	erTooManyPrepared  = 1461
	erPrepareAgain     = 1615
)

// execQuick executes one of a few texts, which the server has prepared if that pays.
func (c *conn) execQuick(ctx context.Context, text string, args []any) (made driver.Result, err error) {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	err = c.until(ctx, func(ctx context.Context) error {
		if s, err := c.statement(ctx, text); err != nil {
			return err
		} else if s != nil {
			made, err = s.(driver.StmtExecContext).ExecContext(ctx, values)
			if !database.Number(err, erUnknownStatement, erNotPreparable, erTooManyPrepared, erPrepareAgain) {
				return err
			}
			c.refused = true // it was not executed
		}
		made, err = c.complete.ExecContext(ctx, text, values)
		return err
	})
	return made, err
}

// statement is nil if the text is to be sent as it is.
func (c *conn) statement(ctx context.Context, text string) (driver.Stmt, error) {
	if c.quick++; c.refused || c.quick <= worthPreparing {
		return nil, nil
	}
	if s := c.prepared[text]; s != nil {
		return s, nil
	}
	s, err := c.PrepareContext(ctx, text)
	if refusal := (*mysql.MySQLError)(nil); errors.As(err, &refusal) {
		c.refused = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.prepared == nil {
		c.prepared = map[string]driver.Stmt{}
	}
	c.prepared[text] = s
	return s, nil
}
