package exchange

import "context"

// recount finds tickets of the session that nobody here knows, when a heartbeat was answered
// by a server that has taken over: it may not have received that they were left, and every
// heartbeat extends them. They become strays, like those whose Join came too late.
func (s *session) recount(history string) {
	s.d.mu.Lock()
	due := history != "" && history != s.history && !s.recounting
	if due && s.history == "" { // nothing was left before anybody said
		s.history, due = history, false
	}
	s.recounting = s.recounting || due
	s.d.mu.Unlock()
	if !due {
		return
	}
	s.d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
		defer cancel()
		all, err := ask(ctx, s.d, func(ctx context.Context) ([]Ref, error) { return s.d.store.Tickets(ctx, s.id) })
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		s.recounting = false
		if err != nil {
			return // the next heartbeat tries again
		}
		for _, t := range all {
			if s.places[t.ID] != nil {
				continue
			}
			if len(s.orphans) >= maxOrphans {
				return // the rest comes after them
			}
			s.orphan(t, 2*s.ttl)
		}
		s.history = history
	})
}
