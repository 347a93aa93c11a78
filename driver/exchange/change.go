package exchange

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Shrink reduces a ticket to fewer units.
func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	ref := s.d.ref(t)
	unsettled, err := call(s.d.with(ctx, ofHolder), s.d, func(ctx context.Context) (bool, error) {
		return s.d.store.Shrink(ctx, s.row, ref, units)
	})
	if unsettled {
		s.d.settle(t.Queue)
	}
	if err != nil {
		return s.noteOver(err)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if e := s.d.entries[t.ID]; e != nil {
		e.tag = 0
	}
	return nil
}

// Keep gives a ticket a fixed end.
func (s *session) Keep(ctx context.Context, t driver.Ticket, in time.Duration) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	in = min(in, maxHold)
	ref := s.d.ref(t)
	sent := s.d.now()
	err := do(s.d.with(ctx, ofHolder), s.d, func(ctx context.Context) error { return s.d.store.Keep(ctx, s.row, ref, in) })
	if err != nil {
		return s.noteOver(err)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if e := s.d.entries[t.ID]; e != nil {
		e.fix(in, sent)
		e.tag = 0
	}
	return nil
}
