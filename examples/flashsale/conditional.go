package flashsale

import (
	"context"
	"database/sql"
)

// conditional leaves it to one statement of the database, which no other can come
// between. Where one statement says all of it, no lock is needed.
func conditional(s *shop) (sell, error) {
	return func(ctx context.Context, o order) (sold bool, err error) {
		if err := s.think(ctx); err != nil {
			return false, err
		}
		err = s.transact(ctx, func(tx *sql.Tx) error {
			return s.placeOnce(ctx, tx, o, func() error { return s.takeOne(ctx, tx, o.item) })
		})
		return soldBy(err)
	}, nil
}
