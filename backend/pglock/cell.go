package pglock

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Cells is one statement, and needs no function.
func (s *store) Cells(ctx context.Context, prefix, after string) (names []string, next string, err error) {
	sql := "SELECT name FROM " + s.schema.name("cell") + " WHERE name > $1::text AND name >= $2::text AND starts_with(name, $2::text) AND present ORDER BY name LIMIT $3::bigint"
	err = s.statement(ctx, s.pool.connect, sql, func(r pgx.Rows) (err error) {
		names, err = pgx.CollectRows(r, pgx.RowTo[string])
		return err
	}, after, prefix, perCells)
	if len(names) == perCells {
		next = names[len(names)-1]
	}
	return names, next, err
}

func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	var c driver.Cell
	var v int64
	err := s.query(ctx, "load", each([]any{&v, &c.Exists, &c.Value}, func() error {
		c.Version = uint64(v)
		return nil
	}), name, s.heard(f.Mailbox))
	if c.Exists && c.Value == nil {
		c.Value = []byte{}
	}
	return c, err
}

func (s *store) Swap(ctx context.Context, w driver.Swap) (driver.Cell, error) {
	var value []byte
	if !w.Delete {
		value = append([]byte{}, w.Value...)
	}
	got, err := s.numbers(ctx, "swap", 1, w.ID, w.Name, int64(min(w.Version, 1<<63-1)), !w.Delete, value)
	if err != nil {
		return driver.Cell{}, err
	}
	if got[0] == 0 {
		return driver.Cell{}, driver.ErrConflict
	}
	return driver.Cell{Version: uint64(got[0]), Exists: !w.Delete, Value: value}, nil
}
