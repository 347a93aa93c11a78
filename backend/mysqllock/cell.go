package mysqllock

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Cells(ctx context.Context, prefix, after string) (names []string, next string, err error) {
	err = s.rows(ctx, "SELECT name FROM {p}cells WHERE name >= ? AND name > ? AND LEFT(name, ?) = ? AND present ORDER BY name LIMIT ?",
		[]any{[]byte(prefix), []byte(after), len(prefix), []byte(prefix), perList},
		func() { names = nil },
		func(r *sql.Rows) error {
			var name []byte
			err := r.Scan(&name)
			names = append(names, string(name))
			return err
		})
	if len(names) == perList {
		next = names[len(names)-1]
	}
	return names, next, err
}

func (s *store) Swap(ctx context.Context, w driver.Swap) (driver.Cell, error) {
	c := driver.Cell{Exists: !w.Delete}
	if c.Exists {
		c.Value = append([]byte{}, w.Value...)
	}
	var conflict bool
	err := s.row(ctx, "CALL {p}swap(?,?,?,?,?)", []any{id(w.ID), []byte(w.Name), w.Version, c.Exists, notNil(c.Value)}, &conflict, &c.Version)
	switch {
	case err != nil:
		return driver.Cell{}, err
	case conflict:
		return driver.Cell{}, driver.ErrConflict
	}
	return c, nil
}

func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (c driver.Cell, err error) {
	if f.Mailbox != "" {
		if err := s.exec(ctx, "CALL {p}watch(6,?,?)", []byte(name), []byte(f.Mailbox)); err != nil {
			return c, err
		}
	}
	err = s.rows(ctx, "SELECT version, present, LEFT(value, ?) FROM {p}cells WHERE name = ?", []any{driver.MaxCell + 1, []byte(name)},
		func() { c = driver.Cell{} },
		func(r *sql.Rows) error {
			var value []byte
			err := r.Scan(&c.Version, &c.Exists, &value)
			if c.Exists {
				c.Value = notNil(value)
			}
			return err
		})
	if err != nil && damaged(err) {
		err = driver.Permanent(fmt.Errorf("mysql: what is kept of %q cannot be read: %w (DELETE FROM %s WHERE name = '%[1]s' forgets it)", name, err, s.sql("{p}cells")))
	}
	return c, err
}
