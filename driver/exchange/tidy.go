package exchange

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// tidying is when a session has the backend tidied next.
type tidying struct {
	sync.Mutex
	next time.Time
}

const tidyEvery = time.Minute

// tidy is called by each heartbeat. Now and then it has removed what dead clients have left.
func (s *session) tidy() {
	store, ok := s.d.store.(Tidier)
	if !ok {
		return
	}
	s.tidying.Lock()
	defer s.tidying.Unlock()
	now := time.Now()
	due := !s.tidying.next.IsZero() && now.After(s.tidying.next)
	if due || s.tidying.next.IsZero() {
		s.tidying.next = now.Add(tidyEvery/2 + rand.N(tidyEvery))
	}
	if !due {
		return
	}
	s.d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
		defer cancel()
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
