package flashsale

import (
	"context"

	"github.com/interlock-go/interlock/rowlock"
)

// pessimistic locks the row before it reads it. Others wait in the database until the
// transaction ends.
func pessimistic(s *shop) (sell, error) {
	items, err := rowlock.NewTable(s.rows, s.itemsTable, "id")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, o order) (bool, error) {
		tx, err := items.Begin(ctx, s.db)
		if err != nil {
			return false, err
		}
		defer tx.Rollback() // nothing after a commit
		err = s.placeOnce(ctx, tx, o, func() error {
			if err := items.Lock(ctx, tx, o.item); err != nil {
				return err
			}
			left, err := s.stock(ctx, tx, o.item)
			switch {
			case err != nil:
				return err
			case left <= 0:
				return errSoldOut
			}
			if err := s.think(ctx); err != nil {
				return err
			}
			return s.setStock(ctx, tx, o.item, left-1)
		})
		if err == nil {
			err = tx.Commit()
		}
		return soldBy(err)
	}, nil
}
