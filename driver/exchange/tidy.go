package exchange

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// nextTidy is when a session has the backend tidied next: once in a minute or so.
func nextTidy() time.Time { return time.Now().Add(tidyEvery/2 + rand.N(tidyEvery)) }

const tidyEvery = time.Minute

// tidy is called by each heartbeat. Now and then it has removed what dead clients have left.
func (s *session) tidy() {
	store, ok := s.d.store.(Tidier)
	s.d.mu.Lock()
	due := ok && time.Now().After(s.tidyAt)
	if due {
		s.tidyAt = nextTidy()
	}
	s.d.mu.Unlock()
	if !due {
		return
	}
	s.d.soon(func(ctx context.Context) {
		queues, err := call(ctx, s.d, store.Tidy)
		if err != nil {
			return // the next time
		}
		slices.Sort(queues)
		for _, q := range slices.Compact(queues) {
			if s.d.settleAll(ctx, q) != nil {
				return
			}
		}
	})
}
