package flashsale

import (
	"context"
	"database/sql"

	"github.com/interlock-go/interlock/rowlock"
)

// optimistic reads the row with its version and writes only if that version still
// stands. Otherwise another was faster, and it tries again.
func optimistic(s *shop) (sell, error) {
	table, err := rowlock.NewTable(s.rows, s.itemsTable, "id")
	if err != nil {
		return nil, err
	}
	items, err := rowlock.NewVersioned(table, "version")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, o order) (sold bool, err error) {
		tries := 0
		err = items.Retry(ctx, 10, func(ctx context.Context) error {
			if tries++; tries > 1 {
				s.retries.Add(1)
			}
			var left int
			version, err := items.Read(ctx, s.db, o.item, rowlock.Columns{"stock": &left})
			if err != nil || left <= 0 {
				return err
			}
			if err := s.think(ctx); err != nil {
				return err
			}
			err = s.transact(ctx, func(tx *sql.Tx) error {
				return s.placeOnce(ctx, tx, o, func() error {
					return items.Write(ctx, tx, o.item, version, rowlock.Columns{"stock": left - 1})
				})
			})
			sold = err == nil
			return err
		})
		return sold, err
	}, nil
}
