package exchange

import (
	"context"
	"maps"

	"github.com/interlock-go/interlock/driver"
)

// perLook bounds the tickets of one exchange, and so its time, if the store does not say how many.
const perLook = 1000

// look asks what has become of tickets.
func (s *session) look(ctx context.Context, refs ...Ref) error {
	return s.lookAfter(ctx, refs, 0, nil)
}

// lookAfter is look after a heartbeat that was sent at that time, or after none (0). What it
// finds is added to found.
func (s *session) lookAfter(ctx context.Context, refs []Ref, renewed driver.Instant, found map[Ref]finding) error {
	q := s.d.question(refs)
	sent := s.d.now()
	got, err := call(ctx, s.d, func(ctx context.Context) ([]Status, error) { return s.d.store.Look(ctx, s.row, refs) })
	if err != nil {
		return err
	}
	all := s.answered(q, got, sent, renewed)
	if found != nil {
		maps.Copy(found, all)
	}
	return nil
}

// question is about tickets. A ticket whose Join had no reply when the question was sent can
// come later, and so can one that had no entry then: that it does not stand proves nothing.
type question struct {
	refs  []Ref
	sound map[Ref]*entry // whose absence from the backend proves that they are gone
}

// question is called before a question is sent.
func (d *Driver) question(refs []Ref) question {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := question{refs, make(map[Ref]*entry, len(refs))}
	now := d.now()
	for _, t := range refs {
		e := d.entries[t.ID]
		if e == nil || e.queue != t.Queue {
			continue
		}
		if e.state != unknown || e.underWay == 0 && now.Sub(e.begun) > 2*e.s.ttl {
			q.sound[t] = e
		}
	}
	return q
}

// finding is what was found out about a ticket.
type finding struct {
	Status
	extended driver.Instant // when the heartbeat was sent that has extended it; 0: none has
	proof    driver.Instant
	unsound  bool // it does not stand, and that proves nothing
}

// answered takes the answer of a question that was sent at that time, after a heartbeat that was
// sent at the time renewed, if that is not 0.
func (s *session) answered(q question, got []Status, sent, renewed driver.Instant) map[Ref]finding {
	found := make(map[Ref]finding, len(q.refs))
	for i, st := range got[:min(len(q.refs), len(got))] {
		t := q.refs[i]
		if st.State == NotAsked {
			continue
		}
		sent, renewed := sent, renewed
		if st.Sent != 0 {
			sent = st.Sent
			if renewed != 0 {
				renewed = st.Sent
			}
		}
		found[t] = s.found(t, st, q.sound[t], sent, renewed)
		if st.Unsettled {
			s.d.settle(t.Queue)
		}
	}
	return found
}

// found is answered for one ticket. Sound is its entry if the answer can prove that it is gone.
func (s *session) found(t Ref, st Status, sound *entry, sent, renewed driver.Instant) finding {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	e := s.d.entries[t.ID]
	if e == nil || e.s != s || e.queue != t.Queue {
		if st.Fixed {
			return finding{st, renewed, min(sent, sent.Add(st.Left-st.Hold)), false}
		}
		return finding{Status: st, extended: renewed}
	}
	if st.State == Gone {
		if e == sound {
			s.d.retire(e)
			s.addOrphan(t, 2*s.ttl) // a heartbeat that takes effect late may have kept it
		}
		return finding{st, 0, 0, e != sound}
	}
	e.observe(st, sent)
	if !st.Evicted && !st.Stray {
		e.prove(renewed)
	}
	return finding{st, renewed, e.proof, false}
}
