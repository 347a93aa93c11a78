package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// perLook bounds the tickets of one exchange, and so its time, if the store does not say how many.
const perLook = 1000

// look asks what has become of tickets.
func (s *session) look(ctx context.Context, refs ...Ref) error {
	_, err := s.lookAfter(ctx, refs, 0)
	return err
}

// lookAfter is look after a heartbeat that was sent at that time, or after none (0).
func (s *session) lookAfter(ctx context.Context, refs []Ref, renewed driver.Instant) ([]finding, error) {
	sound := s.d.sound(refs)
	sent := s.d.now()
	got, err := call(ctx, s.d, func(ctx context.Context) ([]Status, error) { return s.d.store.Look(ctx, s.row, refs) })
	if err != nil {
		return nil, err
	}
	return s.answered(refs, sound, got, sent, renewed), nil
}

// sound is called before a question about tickets is sent. It returns the entries of those that are
// gone if the answer says that they do not stand; nil for the others: a ticket whose Join had no
// reply when the question was sent can come later, and so can one that had no entry then.
func (d *Driver) sound(refs []Ref) []*entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	sound := make([]*entry, len(refs))
	now := d.now()
	for i, t := range refs {
		e := d.entries[t.ID]
		if e != nil && e.queue == t.Queue && (e.state != unknown || e.underWay == 0 && now.Sub(e.begun) > 2*e.s.ttl) {
			sound[i] = e
		}
	}
	return sound
}

// finding is what was found out about a ticket.
type finding struct {
	Status
	extended driver.Instant // when the heartbeat was sent that has extended it; 0: none has
	proof    driver.Instant
	unsound  bool // it does not stand, and that proves nothing
}

// answered takes the answer of a question that was sent at that time, after a heartbeat that was
// sent at the time renewed, if that is not 0. It finds something of each ticket, if only that it was not
// asked about.
func (s *session) answered(refs []Ref, sound []*entry, got []Status, sent, renewed driver.Instant) []finding {
	found := make([]finding, len(refs))
	for i, t := range refs {
		if i >= len(got) || got[i].State == NotAsked {
			found[i].State = NotAsked
			continue
		}
		st, sent, renewed := got[i], sent, renewed
		if st.Sent != 0 {
			sent = st.Sent
			if renewed != 0 {
				renewed = st.Sent
			}
		}
		found[i] = s.found(t, st, sound[i], sent, renewed)
		if st.Unsettled {
			s.d.settle(t.Queue)
		}
	}
	return found
}

// takenAway is called when a holder does not stand though its end has not come: unless the session is over,
// because the backend has lost it, somebody has removed the ticket, and the event of that was missed.
func (s *session) takenAway(e *entry) {
	s.d.soon(func(ctx context.Context) {
		if s.verify(ctx); !s.isOver() {
			e.signal(driver.Evict)
		}
	})
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
			switch {
			case e.state != held || renewed != 0: // a heartbeat says itself that it is gone
			case st.Evicted:
				e.signal(driver.Evict)
			case !e.fixed && s.d.detach != nil && s.d.now() < e.proof.Add(s.ttl):
				s.takenAway(e)
			}
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

// Apart is for a Store that reads tickets together: if a record cannot be read, it reads them in halves, so that
// the damage of one queue harms no ticket of another. Those that cannot be read are NotAsked.
func Apart(tickets []Ref, unreadable func(error) bool, read func([]Ref) ([]Status, error)) ([]Status, error) {
	all, err := read(tickets)
	if err == nil || len(tickets) < 2 || !unreadable(err) {
		return all, err
	}
	all = nil
	for _, half := range [][]Ref{tickets[:len(tickets)/2], tickets[len(tickets)/2:]} {
		got, failed := Apart(half, unreadable, read)
		switch {
		case failed == nil:
			err = nil
		case !unreadable(failed):
			return nil, failed
		}
		for i := range half {
			st := Status{State: NotAsked}
			if failed == nil && i < len(got) {
				st = got[i]
			}
			all = append(all, st)
		}
	}
	return all, err
}
