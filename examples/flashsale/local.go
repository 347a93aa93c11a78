package flashsale

import (
	"context"
	"sync"
)

// local is a lock of the process. It is exact with one worker. With several, each
// has a lock of its own, and they sell the same pieces.
func local(s *shop) (sell, error) {
	locks := make([]sync.Mutex, s.items)
	return func(ctx context.Context, o order) (bool, error) {
		locks[o.item].Lock()
		defer locks[o.item].Unlock()
		return s.buy(ctx, o)
	}, nil
}
