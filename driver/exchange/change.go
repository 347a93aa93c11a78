package exchange

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Shrink reduces a ticket to fewer units.
func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return s.change(ctx, t, func(ctx context.Context, ref Ref) (unsettled bool, err error) {
		return s.d.store.Shrink(ctx, s.row, ref, units)
	}, func(*entry) {})
}

// Keep gives a ticket a fixed end.
func (s *session) Keep(ctx context.Context, t driver.Ticket, in time.Duration) error {
	in = min(in, maxHold)
	sent := s.d.now()
	return s.change(ctx, t, func(ctx context.Context, ref Ref) (unsettled bool, err error) {
		return false, s.d.store.Keep(ctx, s.row, ref, in)
	}, func(e *entry) { e.fix(in, sent) })
}

// change makes an exchange that changes a ticket, and calls changed when it has succeeded.
func (s *session) change(ctx context.Context, t driver.Ticket, exchange func(context.Context, Ref) (unsettled bool, err error), changed func(*entry)) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	ref := Ref{Queue: t.Queue, ID: t.ID}
	s.d.mu.Lock()
	if e := s.d.entries[t.ID]; e != nil && e.queue == t.Queue {
		ref = e.ref()
	}
	s.d.mu.Unlock()
	err := s.d.change(s.d.with(ctx, ofHolder), t.Queue, func(ctx context.Context) (bool, error) { return exchange(ctx, ref) })
	if err != nil {
		return s.noteOver(err)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if e := s.d.entries[t.ID]; e != nil {
		changed(e)
		e.tag = 0
	}
	return nil
}
