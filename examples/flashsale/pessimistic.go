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
		if err := items.Lock(ctx, tx, o.item); err != nil {
			return false, err
		}
		left, err := s.stock(ctx, tx, o.item)
		if err != nil || left <= 0 {
			return false, err
		}
		if err := s.think(ctx); err != nil {
			return false, err
		}
		if err := s.setStock(ctx, tx, o.item, left-1); err != nil {
			return false, err
		}
		if err := s.place(ctx, tx, o); err != nil {
			return false, err
		}
		err = tx.Commit()
		return err == nil, err
	}, nil
}
