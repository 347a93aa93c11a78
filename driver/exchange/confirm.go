package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// confirm is called before the caller is told that a ticket is held. A grant that is not confirmed
// was taken back; then the ticket may be joined again.
func (s *session) confirm(ctx context.Context, e *entry, t driver.Ticket) (driver.Ticket, error) {
	store, ok := s.d.store.(Confirmer)
	if !ok {
		return t, nil
	}
	ref := s.d.refOf(e)
	undone, err := call(ctx, s.d, func(ctx context.Context) (bool, error) { return store.Confirm(ctx, s.row, ref, t.Inherited) })
	if err == nil {
		return t, nil
	}
	if undone {
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		s.d.drop(e)
	}
	return driver.Ticket{}, err
}
