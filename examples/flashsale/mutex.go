package flashsale

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock"
)

// mutex holds a lock while it reads and writes. In strict order buyers are served as
// they came, at whichever worker, so that the workers take turns.
func mutex(s *shop) (sell, error) {
	locks, err := s.locks()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, o order) (sold bool, err error) {
		lock := locks.Mutex(fmt.Sprintf("%s/%d", s.lock, o.item), interlock.StrictOrder())
		err = lock.Do(ctx, func(ctx context.Context) (err error) {
			sold, err = s.buy(ctx, o)
			return err
		})
		return sold, err
	}, nil
}
