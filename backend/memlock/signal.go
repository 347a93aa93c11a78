package memlock

import (
	"context"
	"math/bits"

	"github.com/interlock-go/interlock/driver"
)

// tell has a demand signalled to the ticket's session; one that is still to be
// delivered is not doubled.
func (w *World) tell(t *ticket, demand driver.Demand) {
	s := t.owner
	if s.over {
		return
	}
	if t.tell == 0 {
		s.signals.push(t)
	}
	t.tell |= 1 << demand
	s.bell.ring()
}

// remind repeats the demands that stand, in case their signal was lost.
func (w *World) remind(t *ticket) {
	if t.held && t.queue.waiting != nil {
		w.tell(t, driver.Wanted)
	}
	if t.revoked {
		w.tell(t, driver.Revoke)
	}
	if t.evicted {
		w.tell(t, driver.Evict)
	}
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return wait(ctx, s.d, "Signals", s.signal)
}

func (s *session) signal() (driver.Signal, *bell, error) {
	switch {
	case s.doubt:
		s.doubt = false
		return driver.Signal{Demand: driver.Doubt}, nil, nil
	case s.d.cut:
		return driver.Signal{}, &s.d.healed, nil
	case s.over:
		return driver.Signal{}, nil, driver.ErrSession
	}
	if len(s.forced) > 0 {
		g := s.forced[0]
		s.forced = s.forced[1:]
		return g, nil, nil
	}
	t := s.signals.first
	if t == nil {
		return driver.Signal{}, &s.bell, nil
	}
	demand := bits.Len8(t.tell) - 1 // the gravest first
	if t.tell &^= 1 << demand; t.tell == 0 {
		s.signals.remove(t)
	}
	return driver.Signal{Demand: driver.Demand(demand), Queue: t.queue.name, ID: t.text}, nil, nil
}

func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return change(ctx, d, "Ask", func() error {
		w := d.world
		t := w.find(queue, id)
		switch {
		case t == nil:
			return driver.ErrGone
		case what == driver.Revoke:
			t.revoked = true
			w.tell(t, driver.Revoke)
		case what == driver.Force || !t.held:
			if s := t.owner; !s.over {
				s.forced = append(s.forced, driver.Signal{Demand: driver.Evict, Queue: t.queue.name, ID: t.text})
				s.bell.ring()
			}
			w.leave(t, false)
		default:
			if latest := w.now.Add(t.owner.ttl); t.fixed != nil && t.hold == 0 && t.end > latest {
				t.end = latest
				w.set(t.fixed, latest)
			}
			t.evicted = true
			w.changed(t.queue)
			w.tell(t, driver.Evict)
		}
		return nil
	})
}
