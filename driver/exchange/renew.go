package exchange

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// perLook bounds the tickets of one exchange, and so its time.
const perLook = 1000

// Renew extends the session in one exchange, which also reads what has become of
// tickets; if these are many, others read the rest. Before that, strays get an end of
// their own, so that this does not extend them, if that does not take long.
func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	named, strays, look, err := s.renewal(known)
	if err != nil {
		return nil, err
	}
	ctx = withHeartbeat(ctx)
	if len(known) > 0 {
		s.strand(ctx, s.ttl/aside, strays, nil)
	} else { // nothing is to be kept
		s.strand(ctx, s.ttl/4, strays, nil)
	}
	part := look[:min(len(look), perLook)]
	asked := s.d.asking(part)
	sent := driver.Now()
	first, err := ask(ctx, s.d, func(ctx context.Context) (Renewed, error) { return s.d.store.Renew(ctx, s.id, part) })
	if err != nil {
		return nil, s.heard(err)
	}
	s.renewed(sent)
	found := s.see(asked, first, sent, sent)
	for at := perLook; at < len(look); at += perLook {
		if s.lookUp(ctx, look[at:min(at+perLook, len(look))], sent, found) != nil {
			break // nothing is said of the rest
		}
	}
	s.recount(first.History)
	s.unstrand(ctx, named, found, sent)
	s.tidy()
	return s.answer(named, look, found, sent), nil
}

// lookUp adds what it finds out about tickets after the session was renewed.
func (s *session) lookUp(ctx context.Context, refs []Ref, renewed driver.Instant, found map[Ref]seen) error {
	asked := s.d.asking(refs)
	sent := driver.Now()
	got, err := ask(ctx, s.d, func(ctx context.Context) (Renewed, error) { return s.d.store.Look(ctx, s.id, refs) })
	if err == nil {
		maps.Copy(found, s.see(asked, got, sent, renewed))
	}
	return err
}

// renewal sorts what a heartbeat has to do: tickets of this session that are not
// named become strays. Those whose Join is under way are left alone until it has been for
// one TTL: there may be many, each of which waits for its queue.
func (s *session) renewal(known []driver.Ticket) (named map[Ref]bool, strays, look []Ref, err error) {
	named = make(map[Ref]bool, len(known))
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	ids := make(map[string]bool, len(known))
	for _, t := range known {
		ref := Ref{t.Queue, t.ID}
		if named[ref] {
			continue
		}
		if err := checkRef(ref); err != nil {
			return nil, nil, nil, err
		}
		named[ref], ids[t.ID] = true, true
		look = append(look, ref)
	}
	now := driver.Now()
	for id, p := range s.places {
		switch {
		case ids[id]:
		case !p.sent && p.joining == 0: // no ticket of it stands
			if now.Sub(p.joined) > s.ttl {
				s.d.forget(p)
			}
		case p.joining > 0 && now.Sub(p.joined) < s.ttl: // its Join will say how it stands
		case p.fixed && p.state == held && now.Sub(p.proof) > p.hold+2*s.ttl: // it has ended by itself
			s.d.ended(p)
		case p.fixed:
		default:
			strays = append(strays, p.ref())
		}
	}
	for t, until := range s.orphans {
		if now > until || ids[t.ID] || s.places[t.ID] != nil {
			delete(s.orphans, t)
			continue
		}
		strays = append(strays, t)
	}
	return named, strays, append(look, strays...), nil
}

// aside is for which part of the TTL a heartbeat that has tickets to keep waits for others.
const aside = 12

// strand gives strays an end of their own, and takes theirs from the tickets in again. For
// each of them the database waits for the ticket's queue, whose row others may have locked
// for long. A heartbeat must not wait for that, since what it is to keep may be elsewhere:
// after a while it goes on, and so does this, one of each kind at a time. Then the heartbeat
// extends a stray once more. That does no harm: whenever a stray gets its end, this is not
// earlier than what was promised.
func (s *session) strand(ctx context.Context, wait time.Duration, strays, again []Ref) (done bool) {
	turn := &s.stranding
	if len(again) > 0 { // which is urgent
		turn = &s.unstranding
	}
	if len(strays)+len(again) == 0 || !turn.TryLock() {
		return false
	}
	result := make(chan error, 1)
	s.d.background(func(ctx context.Context) {
		defer turn.Unlock()
		ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
		defer cancel()
		result <- s.d.do(ctx, func(ctx context.Context) error { return s.d.store.Strand(ctx, s.id, strays, again) })
	})
	enough := time.NewTimer(wait)
	defer enough.Stop()
	select {
	case err := <-result:
		return err == nil // else the next heartbeat tries again
	case <-enough.C:
	case <-ctx.Done():
	}
	return false
}

func (s *session) renewed(sent driver.Instant) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.proof = max(s.proof, sent)
}

// seen is what was found out about a ticket.
type seen struct {
	Standing
	proof    driver.Instant
	underWay bool // its Join may arrive later than the question
}

// question is about tickets. Those whose Join had no answer when it was asked may
// come later, and so may those of which nothing was known then: that they do not stand
// means nothing.
type question struct {
	refs []Ref
	open map[Ref]*place
}

// asking notes what is known before a question is sent.
func (d *Driver) asking(refs []Ref) question {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := question{refs, make(map[Ref]*place, len(refs))}
	now := driver.Now()
	for _, t := range refs {
		p := d.places[t.ID]
		if p == nil || p.queue != t.Queue {
			continue
		}
		if p.state != unknown || p.joining == 0 && now.Sub(p.joined) > 2*p.s.ttl {
			q.open[t] = p
		}
	}
	return q
}

// see takes note of what an exchange has said about tickets, after the session was
// renewed; 0 if it was not.
func (s *session) see(asked question, got Renewed, sent, renewed driver.Instant) map[Ref]seen {
	found := make(map[Ref]seen, len(asked.refs))
	for i, st := range got.Standings[:min(len(asked.refs), len(got.Standings))] {
		t := asked.refs[i]
		found[t] = s.d.see(t, st, s, sent, renewed, asked.open[t])
		if st.More {
			s.d.settle(t.Queue)
		}
	}
	return found
}

// see takes note of what was said of one ticket. The place that was there when the
// question was asked can be seen to be gone, and no other.
func (d *Driver) see(t Ref, st Standing, s *session, sent, renewed driver.Instant, open *place) seen {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[t.ID]
	if p == nil || p.s != s || p.queue != t.Queue {
		if st.Fixed {
			return seen{st, min(sent, sent.Add(st.Left-st.Hold)), false}
		}
		return seen{Standing: st}
	}
	if st.State == Gone {
		if p == open {
			d.ended(p)
			s.orphan(t, 2*s.ttl) // a renewal that is committed late may have kept it
		}
		return seen{st, 0, p != open}
	}
	p.seen(st, sent)
	if !st.Evicted && !st.Stray {
		p.prove(renewed)
	}
	return seen{st, p.proof, false}
}

// unstrand has tickets extended again that were found to be strays, though the
// caller knows them.
func (s *session) unstrand(ctx context.Context, named map[Ref]bool, found map[Ref]seen, renewed driver.Instant) {
	var again []Ref
	for t := range named {
		if st, ok := found[t]; ok && st.State != Gone && st.Stray {
			again = append(again, t)
		}
	}
	if s.strand(ctx, s.ttl/aside, nil, again) {
		_ = s.lookUp(ctx, again, renewed, found) // else the next heartbeat finds them
	}
}

func (s *session) answer(named map[Ref]bool, asked []Ref, found map[Ref]seen, sent driver.Instant) []driver.Renewed {
	answer := make([]driver.Renewed, 0, len(asked))
	for _, t := range asked {
		st, ok := found[t]
		r := driver.Renewed{ID: t.ID, Queue: t.Queue}
		switch {
		case !ok:
			continue
		case !named[t]:
			if st.State == Gone || st.Fixed {
				continue
			}
			r.State = driver.Stray
		case st.underWay:
			continue
		case st.State == Gone:
			r.State = driver.Gone
		case st.Evicted:
			r.State = driver.Evicted
		case st.Stray:
			continue // it could not be extended, and tells the next time
		case st.Fixed:
			r.State, r.Proof = driver.Kept, st.proof
		default:
			r.State, r.Proof = driver.Kept, sent
		}
		answer = append(answer, r)
	}
	return answer
}

// tidied is when a session has tidied up last.
type tidied struct {
	sync.Mutex
	next time.Time
}

const tidyEvery = time.Minute

// tidy removes, now and then, what dead clients have left.
func (s *session) tidy() {
	s.tidied.Lock()
	defer s.tidied.Unlock()
	now := time.Now()
	due := !s.tidied.next.IsZero() && now.After(s.tidied.next)
	if due || s.tidied.next.IsZero() {
		s.tidied.next = now.Add(tidyEvery/2 + rand.N(tidyEvery))
	}
	if !due {
		return
	}
	s.d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
		defer cancel()
		queues, err := ask(ctx, s.d, s.d.store.Tidy)
		if err != nil {
			return // the next one tries again
		}
		slices.Sort(queues)
		for _, q := range slices.Compact(queues) {
			if s.d.settleAll(ctx, q) != nil {
				return
			}
		}
	})
}
