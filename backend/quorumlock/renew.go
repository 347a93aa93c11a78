package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// Renew renews at all members at once. It does not wait for one that is muted. A ticket is kept if a
// majority of members have kept it. While it is kept it joins again at members that have
// lost it, so that it does not lose its majority when the next one does.
func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	began := s.d.now()
	named, unsure := s.name(ctx, known, began)
	s.mu.Lock()
	s.rounds++
	round := s.rounds
	s.sweep(named, began)
	strays := map[string]*ticket{}
	open := 0
	done := make(chan bool, len(s.links)) // each tells whether its member was not muted
	answered := 0
	for i, l := range s.links {
		if l.at == nil {
			continue
		}
		var places []driver.Ticket
		for _, t := range named {
			if p := t.places[i]; (p.state == granted || p.state == waiting) && (p.at == l.at || p.hold > 0) {
				places = append(places, driver.Ticket{ID: p.id, Queue: t.req.Queue, Held: p.state == granted, Token: p.token})
			}
		}
		at, quick := l.at, !l.muted
		if quick {
			open++
		}
		s.d.background(func() {
			ctx, cancel := context.WithTimeout(s.ctx, s.patience)
			defer cancel()
			sent := s.d.now()
			got, err := at.Renew(ctx, places)
			s.mu.Lock()
			s.renewed(l, at, i, round, sent, got, err, strays)
			if err == nil {
				answered++
			}
			s.mu.Unlock()
			done <- quick
		})
	}
	s.mu.Unlock()
	for open > 0 {
		select {
		case quick := <-done:
			if quick {
				open--
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			if s.d.ctx.Err() != nil {
				return nil, errClosed
			}
			return nil, driver.ErrSession
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered < s.d.majority {
		return nil, s.tooFew()
	}
	all := make([]driver.Renewed, 0, len(known))
	for _, k := range known {
		if unsure[k.ID] {
			continue
		}
		if r, ok := s.fate(k, named[k.ID], round, began); ok {
			all = append(all, r)
		}
	}
	for id, t := range strays {
		if named[id] == nil && t.state != left {
			all = append(all, driver.Renewed{ID: id, Queue: t.req.Queue, State: driver.Stray})
		}
	}
	return all, nil
}

// name finds the tickets that the caller knows of, those of other sessions, too, if they have a fixed
// end. It also returns the tickets on which too few members have answered.
func (s *session) name(ctx context.Context, known []driver.Ticket, now driver.Instant) (named map[string]*ticket, unsure map[string]bool) {
	named, unsure = make(map[string]*ticket, len(known)), map[string]bool{}
	for _, k := range known {
		t := s.find(k)
		if t == nil {
			s.mu.Lock()
			gone := s.left.Has(k.ID)
			s.mu.Unlock()
			if !gone {
				var err error
				t, err = s.findAny(ctx, k)
				unsure[k.ID] = err != nil && !errors.Is(err, driver.ErrGone)
			}
		}
		if t == nil {
			continue
		}
		s.mu.Lock()
		t.named = now
		s.mu.Unlock()
		named[k.ID] = t
	}
	return named, unsure
}

// renewed takes note of what a member has answered. s.mu is held.
func (s *session) renewed(l *link, at *driver.Opened, i int, round uint64, sent driver.Instant, got []driver.Renewed, err error, strays map[string]*ticket) {
	switch {
	case errors.Is(err, driver.ErrSession):
		l.over(at)
		return
	case err != nil:
		if s.ctx.Err() == nil {
			l.silent(at, err)
		}
		return
	}
	if l.muted && l.at == at {
		l.poke() // it answers again
	}
	for _, r := range got {
		t := s.placed[r.ID]
		if t == nil || t.places[i].id != r.ID {
			if r.State == driver.Stray {
				l.owes(debt{ticket: driver.Ticket{ID: r.ID, Queue: r.Queue}, clean: true, end: sent.Add(s.granted)})
			}
			continue
		}
		p := &t.places[i]
		switch r.State {
		case driver.Kept:
			p.renewed = max(p.renewed, round)
			if t.foreign { // its own session may have put off its end
				p.end = max(p.end, sent.Add(s.granted))
			}
			if p.state == granted {
				p.proof = max(p.proof, min(l.proof(r.Proof, at.TTL, p.hold > 0), s.d.now()))
			}
		case driver.Gone:
			if p.state == waiting {
				s.d.background(func() { t.taken(i, r.ID) })
				continue
			}
			t.lost(i)
		case driver.Evicted:
			p.renewed = max(p.renewed, round)
			t.evicted = true
			t.poke()
		case driver.Stray:
			if p.state != joining {
				strays[t.req.ID] = t
			}
		}
	}
}

// fate is what has become of a ticket, unless that is not known. s.mu is held.
func (s *session) fate(k driver.Ticket, t *ticket, round uint64, began driver.Instant) (driver.Renewed, bool) {
	r := driver.Renewed{ID: k.ID, Queue: k.Queue, State: driver.Gone}
	switch {
	case t == nil || t.state == left:
		return r, true
	case t.state == pursued:
		if t.evicted {
			return r, true
		}
		r.State, r.Proof = driver.Kept, began
		return r, true
	case t.parting:
		return r, false
	case t.standing(s.d.now()) < s.d.majority:
		s.left.Add(k.ID)
		t.end(driver.ErrGone, false)
		return r, true
	case t.evicted:
		r.State = driver.Evicted
		return r, true
	}
	kept := t.count(func(p place) bool { return p.counts() && p.renewed >= round })
	t.restore() // also if a member is silent: its place may end before it answers
	if kept < s.d.majority {
		r.State, r.Why = driver.Unasked, s.notKept(t, round)
		return r, true
	}
	r.State, r.Proof = driver.Kept, t.proof()
	return r, true
}

// notKept says which members have not renewed a ticket. s.mu is held.
func (s *session) notKept(t *ticket, round uint64) error {
	var why []string
	for i, l := range s.links {
		switch p := &t.places[i]; {
		case p.counts() && p.renewed == round:
		case !l.counts():
			why = append(why, l.reason())
		case p.counts():
			why = append(why, l.m.name+": it has not answered yet")
		default:
			why = append(why, l.m.name+": it has no place for the lock")
		}
	}
	return fmt.Errorf("quorum: %d of %d members have renewed it, %d are needed: %s", len(t.places)-len(why), len(t.places), s.d.majority, strings.Join(why, "; "))
}

// restore joins at members where a ticket that is held has no place, and makes places as small as the
// ticket. s.mu is held.
func (t *ticket) restore() {
	small := false
	for i := range t.places {
		p := &t.places[i]
		small = small || p.state == granted && p.units > t.units
		t.joinAlso(i)
	}
	if small && !t.foreign && !t.parting {
		t.s.d.background(func() { _, _ = t.shrink(t.s.ctx) })
	}
}

// rejoin has the tickets that are held join at a member that counts again, without waiting for a heartbeat: the
// next member may fail. Where a join has failed in this life, the heartbeat tries again. s.mu is held.
func (s *session) rejoin(l *link) {
	now := s.d.now()
	for _, t := range s.tickets {
		if t.state == held && !t.hasFailed(l) && t.standing(now) >= s.d.majority {
			t.joinAlso(l.i)
		}
	}
}

// joinAlso joins at a member where a ticket that is held has no place, if it counts. s.mu is held.
//
// A majority of places has to stand all the time: else another may have held the lock meanwhile. So the
// place counts only if a majority of the others stands when it is there (see verify).
func (t *ticket) joinAlso(i int) {
	switch p := &t.places[i]; {
	case p.state != untried && p.state != refused, !t.s.links[i].counts():
	case t.foreign, t.parting, t.evicted:
	case t.hold > 0: // it would end later than the others
	default:
		t.join(i, true)
	}
}
