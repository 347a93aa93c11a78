package exchange

import "context"

// reconcile finds tickets of the session that have no entry, when a heartbeat was answered by a
// server with another history: that server may not have received that they were left, and each
// heartbeat extends them. They become orphans, and so strays.
func (s *session) reconcile(history string) {
	s.d.mu.Lock()
	due := s.d.detach != nil && history != "" && history != s.history && !s.reconciling
	if due && s.history == "" { // the first one that is known
		s.history, due = history, false
	}
	s.reconciling = s.reconciling || due
	s.d.mu.Unlock()
	if !due {
		return
	}
	s.d.soon(func(ctx context.Context) {
		all, err := call(ctx, s.d, func(ctx context.Context) ([]Ref, error) { return s.d.detach.Tickets(ctx, s.row) })
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		s.reconciling = false
		if err != nil {
			return // the next heartbeat tries again
		}
		for _, t := range all {
			if s.entry(t.ID) == nil && !s.addOrphan(t, 2*s.ttl) {
				return // a later heartbeat finds the rest
			}
		}
		s.history = history
	})
}
