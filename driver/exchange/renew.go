package exchange

import (
	"context"
	"maps"

	"github.com/interlock-go/interlock/driver"
)

// Renew extends the session in one exchange, which also reads what has become of tickets; if
// these are many, further exchanges read the rest, or extend it if sessions have no rows. Before that, strays get an end of their own,
// so that this does not extend them, if that does not take long.
func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	named, strays, refs := s.toRenew(known)
	ctx = s.d.with(ctx, heartbeat)
	patience := s.ttl / strayShare
	if len(known) == 0 { // nothing is to be kept
		patience = s.ttl / 4
	}
	s.detach(ctx, patience, strays)
	most := s.d.traits.PerRenew
	found := make(map[Ref]finding, len(refs))
	first := refs[:min(len(refs), most)]
	sent, history, err := s.renew(ctx, first, min(len(named), most), found)
	if err != nil {
		return nil, s.noteOver(err)
	}
	for at := len(first); at < len(refs); at += most {
		part := refs[at:min(at+most, len(refs))]
		if s.d.detach != nil {
			err = s.lookAfter(ctx, part, sent, found) // they were extended with the session
		} else {
			_, _, err = s.renew(ctx, part, min(max(len(named)-at, 0), len(part)), found)
		}
		if err != nil {
			break // nothing is said of the rest
		}
	}
	s.reconcile(history)
	s.attachNamed(ctx, named, found, sent)
	s.tidy()
	return s.renewed(named, refs, found), nil
}

// renew makes one exchange of a heartbeat, and adds what it finds to found.
func (s *session) renew(ctx context.Context, refs []Ref, extend int, found map[Ref]finding) (sent driver.Instant, history string, err error) {
	q := s.d.question(refs)
	sent = s.d.now()
	got, err := call(ctx, s.d, func(ctx context.Context) (Renewal, error) { return s.d.store.Renew(ctx, s.row, refs, extend) })
	if err != nil {
		return 0, "", err
	}
	s.wasRenewed(sent)
	maps.Copy(found, s.answered(q, got.Tickets, sent, sent))
	return sent, got.History, nil
}

// toRenew sorts what a heartbeat has to do: named are the tickets of the caller, strays those of
// the session that the caller has not named, and refs are both.
func (s *session) toRenew(known []driver.Ticket) (named map[Ref]bool, strays, refs []Ref) {
	named = make(map[Ref]bool, len(known))
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	ids := make(map[string]bool, len(known))
	for _, t := range known {
		ref := Ref{Queue: t.Queue, ID: t.ID}
		if e := s.entries[t.ID]; e != nil && e.queue == t.Queue {
			ref = e.ref()
		}
		if named[ref] {
			continue
		}
		named[ref], ids[t.ID] = true, true
		refs = append(refs, ref)
	}
	now := s.d.now()
	for id, e := range s.entries {
		switch {
		case ids[id]:
		case !e.wasSent && e.underWay == 0: // no ticket of it stands
			if now.Sub(e.begun) > s.ttl {
				s.d.drop(e)
			}
		case e.underWay > 0 && now.Sub(e.begun) < s.ttl: // its Join will say how it stands; there may be many
		case e.fixed && e.state == held && e.proof != 0 && now.Sub(e.proof) > e.hold+2*s.ttl: // it has expired
			s.d.retire(e)
		case e.fixed:
		default:
			strays = append(strays, e.ref())
		}
	}
	for t, until := range s.orphans {
		if now > until || ids[t.ID] || s.entries[t.ID] != nil {
			delete(s.orphans, t)
			continue
		}
		strays = append(strays, t)
	}
	return named, strays, append(refs, strays...)
}

// wasRenewed notes when the last heartbeat was sent that has succeeded.
func (s *session) wasRenewed(sent driver.Instant) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.proof = max(s.proof, sent)
}

// renewed is the answer of a heartbeat.
func (s *session) renewed(named map[Ref]bool, refs []Ref, found map[Ref]finding) []driver.Renewed {
	answer := make([]driver.Renewed, 0, len(refs))
	for _, t := range refs {
		f, ok := found[t]
		r := driver.Renewed{ID: t.ID, Queue: t.Queue}
		switch {
		case !ok:
			continue
		case !named[t]:
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
