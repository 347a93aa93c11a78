package sqlitelock

import (
	"fmt"

	"zombiezen.com/go/sqlite"
)

// conn is a connection with its prepared statements. One goroutine at a time
// uses it.
type conn struct{ *sqlite.Conn }

// noFollow is SQLITE_OPEN_NOFOLLOW.
const noFollow sqlite.OpenFlags = 0x01000000

// openConn opens a connection that believes nothing of what the file says: all who share
// it can write any schema into it, and put a link in its place.
func openConn(path string, how sqlite.OpenFlags) (conn, error) {
	raw, err := sqlite.OpenConn(path, how|noFollow)
	if err != nil {
		return conn{}, err
	}
	c := conn{raw}
	c.SetBusyTimeout(0)
	// Not SetDefensive: it passes one argument where SQLite reads two, which then writes
	// to where the remains of freed memory point, and so into what another connection of
	// this process binds or keeps.
	for _, sql := range []string{"PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON"} {
		if err := c.exec(sql); err != nil {
			c.Close()
			return conn{}, err
		}
	}
	return c, nil
}

// exec runs a statement that returns nothing.
func (c conn) exec(sql string, args ...any) error {
	return c.all(sql, func(*sqlite.Stmt) bool { return false }, args...)
}

// one runs a statement and calls scan with the first row, if there is one.
func (c conn) one(sql string, scan func(*sqlite.Stmt), args ...any) error {
	return c.all(sql, func(s *sqlite.Stmt) bool { scan(s); return false }, args...)
}

// all runs a statement and calls scan with each row until it returns false.
func (c conn) all(sql string, scan func(*sqlite.Stmt) bool, args ...any) error {
	s, err := c.bind(sql, args)
	if err != nil {
		return err
	}
	found, err := s.Step()
	for found && err == nil && scan(s) {
		found, err = s.Step()
	}
	if e := s.Reset(); err == nil {
		err = e
	}
	return err
}

func (c conn) bind(sql string, args []any) (*sqlite.Stmt, error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	for i, a := range args {
		switch i++; a := a.(type) {
		case nil:
			s.BindNull(i)
		case string:
			s.BindText(i, a)
		case []byte:
			if a == nil {
				s.BindNull(i)
			} else {
				s.BindBytes(i, a)
			}
		case bool:
			s.BindBool(i, a)
		case int:
			s.BindInt64(i, int64(a))
		case int64:
			s.BindInt64(i, a)
		default:
			panic(fmt.Sprintf("sqlitelock: cannot bind %T", a))
		}
	}
	return s, nil
}
