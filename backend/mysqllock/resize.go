package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

// Resize looks who has made the procedure, each time: where tables of an earlier release are used,
// it may have been made after the client has looked.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (unsettled bool, err error) {
	if err := s.aside(ctx, func(c *sql.Conn) error { return s.resizable(ctx, c) }); err != nil {
		return false, err
	}
	for err = sqlcode.ErrMore; err == sqlcode.ErrMore; {
		err = s.staying(ctx, queue, func() (err error) {
			unsettled, err = s.call(ctx, "CALL {p}resize(?,?)", []byte(queue), capacity)
			return err
		})
	}
	return unsettled, err
}

// resizable makes the procedures that an earlier release has not made, if the others are of this user.
func (s *store) resizable(ctx context.Context, c *sql.Conn) error {
	for try := 0; ; try++ {
		m, err := layoutOf(s.prefix).Makers(ctx, c)
		if err == nil {
			err = m.Strange(true)
		}
		switch {
		case err != nil || len(m.Later) == 0:
			return err
		case try > 0 || len(m.Others()) > 0:
			return driver.Permanent(fmt.Errorf("mysql: %s is not there, or not for this user, as where an earlier release has made the tables: "+
				"a program of the user who has made them has to call this once, or that user grants EXECUTE: %w", m.Later[0], errors.ErrUnsupported))
		}
		if err := makeAll(ctx, c, statements(s.prefix, later)); err != nil && !database.Denied(err) {
			return err
		}
	}
}
