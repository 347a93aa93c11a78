package flashsale

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
)

// fenced is mutex, and the database refuses a token that is older than one that it
// has seen. So a worker that was stopped too long cannot write what it believes.
func fenced(s *shop) (sell, error) {
	locks, err := s.locks()
	if err != nil {
		return nil, err
	}
	tokens, err := fence.NewColumn(s.fence, s.itemsTable, "id", "token")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, o order) (sold bool, err error) {
		lock := locks.Mutex(fmt.Sprintf("%s/%d", s.lock, o.item), interlock.StrictOrder())
		err = lock.Do(ctx, func(ctx context.Context) (err error) {
			sold, err = s.buy(ctx, o, func(ctx context.Context, tx *sql.Tx) error {
				return tokens.Check(ctx, tx, o.item, interlock.LeaseFrom(ctx))
			})
			return err
		})
		return sold, err
	}, nil
}
