package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Renew extends the session in one exchange, which also reads what has become of tickets; if these are many,
// further exchanges read the rest, or extend it if sessions have no rows. Before that, strays get an end of
// their own, so that this does not extend them, if that does not take long.
func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	refs, named := s.toRenew(known)
	ctx = s.d.with(ctx, heartbeat)
	patience := s.ttl / strayShare
	if named == 0 { // nothing is to be kept
		patience = s.ttl / 4
	}
	s.detach(ctx, patience, refs[named:])
	most := s.d.traits.PerRenew
	sent := s.d.now()
	found, history, err := s.renew(ctx, refs[:min(len(refs), most)], min(named, most), sent)
	if err != nil {
		return nil, s.noteOver(err)
	}
	for at := len(found); at < len(refs); at += most {
		part := refs[at:min(at+most, len(refs))]
		var more []finding
		if s.d.detach != nil {
			more, err = s.lookAfter(ctx, part, sent) // they were extended with the session
		} else {
			more, _, err = s.renew(ctx, part, min(max(named-at, 0), len(part)), s.d.now())
		}
		if err != nil {
			break // nothing is said of the rest
		}
		found = append(found, more...)
	}
	s.reconcile(history)
	s.attachNamed(ctx, refs[:min(named, len(found))], found, sent)
	s.tidy()
	return renewed(refs, named, found), nil
}

// renew makes one exchange of a heartbeat, which is sent at that time.
func (s *session) renew(ctx context.Context, refs []Ref, extend int, sent driver.Instant) (found []finding, history string, err error) {
	sound := s.d.sound(refs)
	got, err := call(ctx, s.d, func(ctx context.Context) (Renewal, error) { return s.d.store.Renew(ctx, s.row, refs, extend) })
	if err != nil {
		return nil, "", err
	}
	s.d.mu.Lock()
	s.proof = max(s.proof, sent)
	s.d.mu.Unlock()
	return s.answered(refs, sound, got.Tickets, sent, sent), got.History, nil
}

// toRenew says what a heartbeat asks about: first the tickets that the caller has named, then those of
// the session that the caller has not.
func (s *session) toRenew(known []driver.Ticket) (refs []Ref, named int) {
	ids, seen := make(map[string]bool, len(known)), make(map[Ref]bool, len(known))
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, t := range known {
		ref := Ref{Queue: t.Queue, ID: t.ID}
		if e := s.entry(t.ID); e != nil && e.queue == t.Queue {
			ref = e.ref()
		}
		if !seen[ref] {
			ids[t.ID], seen[ref] = true, true
			refs = append(refs, ref)
		}
	}
	named = len(refs)
	now := s.d.now()
	for e := range s.entries {
		switch {
		case ids[e.id]:
		case !e.wasSent && e.underWay == 0: // no ticket of it stands
			if now.Sub(e.begun) > s.ttl {
				s.d.drop(e)
			}
		case e.underWay > 0 && now.Sub(e.begun) < s.ttl: // its Join will say how it stands; there may be many
		case e.fixed && e.state == held && e.proof != 0 && now.Sub(e.proof) > e.hold+2*s.ttl: // it has expired
			s.d.retire(e)
		case e.fixed:
		default:
			refs = append(refs, e.ref())
		}
	}
	for t, until := range s.orphans {
		if now > until || ids[t.ID] || s.entry(t.ID) != nil {
			delete(s.orphans, t)
			continue
		}
		refs = append(refs, t)
	}
	return refs, named
}

// renewed is the answer of a heartbeat, of what it has found.
func renewed(refs []Ref, named int, found []finding) []driver.Renewed {
	answer := make([]driver.Renewed, 0, len(found))
	for i, f := range found {
		r := driver.Renewed{ID: refs[i].ID, Queue: refs[i].Queue}
		switch {
		case f.State == NotAsked:
			continue
		case i >= named:
			if f.State == Gone || f.Fixed {
				continue
			}
			r.State = driver.Stray
		case f.unsound:
			continue
		case f.State == Gone:
			r.State = driver.Gone
		case f.Evicted:
			r.State = driver.Evicted
		case f.Stray:
			continue // it was not extended; the next heartbeat says what became of it
		case f.Fixed:
			r.State, r.Proof = driver.Kept, f.proof
		default:
			r.State, r.Proof = driver.Kept, f.extended
		}
		answer = append(answer, r)
	}
	return answer
}
