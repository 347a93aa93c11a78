package sqlitelock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

// Renew is one exchange that writes one row, whatever the number of tickets, and
// one that reads them; more only if something is amiss.
func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	d := s.d
	named := make(map[string]bool, len(known))
	for _, k := range known {
		named[k.ID] = true
	}
	var strays []*ticket // not extended: not named, or evicted
	for _, t := range d.tickets.of(s) {
		if !named[t.id] {
			strays = append(strays, t)
		}
	}
	proof := driver.Now()
	if err := s.extend(ctx, strays); err != nil {
		return nil, err
	}
	d.tickets.proven(s, proof, strays)

	answer := make([]driver.Renewed, 0, len(known)+len(strays))
	foreign := map[string]bool{}
	var own []*ticket
	for _, k := range known {
		if t := d.tickets.get(k.ID); t != nil && t.owner == s && t.queue == k.Queue {
			own = append(own, t)
		} else {
			foreign[k.ID] = true
		}
	}
	found, err := d.examine(ctx, append(own, strays...))
	if err != nil {
		return nil, err
	}
	var again []*ticket // named again, after they were strays
	for _, k := range known {
		r := driver.Renewed{ID: k.ID, Queue: k.Queue, State: driver.Gone}
		if foreign[k.ID] {
			if r.State, r.Proof, err = d.foreign(ctx, k); err != nil {
				return nil, err
			}
		} else if t := d.tickets.get(k.ID); t != nil && d.tickets.underWay(t) {
			continue // its Join is under way
		} else if f, ok := found[k.ID]; ok {
			r.State, r.Proof = driver.Kept, proof
			switch {
			case f.flags&evicted != 0:
				r.State, r.Proof = driver.Evicted, 0
			case f.flags&fixed != 0:
				r.Proof = f.proof
			case f.flags&stray != 0:
				again = append(again, f.ticket)
			}
		}
		answer = append(answer, r)
	}
	for _, t := range strays {
		if f, ok := found[t.id]; ok && f.flags&fixed == 0 {
			answer = append(answer, driver.Renewed{ID: t.id, Queue: t.queue, State: driver.Stray})
		}
	}
	if len(again) > 0 {
		kept, err := s.extendAgain(ctx, again)
		if err != nil {
			return nil, err
		}
		d.tickets.foundAgain(kept)
		for i := range answer {
			if _, asked := kept[answer[i].ID]; asked && !kept[answer[i].ID] {
				answer[i].State, answer[i].Proof = driver.Gone, 0
			}
		}
	}
	d.upkeep(ctx)
	return answer, nil
}

// proven takes note of a renewal, which proves nothing for the strays: what they
// have of earlier ones stays theirs.
func (ts *tickets) proven(s *session, proof driver.Instant, strays []*ticket) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range strays {
		if !t.stray && !t.hold {
			t.stray, t.proof = true, max(t.proof, s.proof)
		}
	}
	s.proof = proof
}

// foundAgain takes note of strays that a Renew has extended after all.
func (ts *tickets) foundAgain(kept map[string]bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for id, ok := range kept {
		if t := ts.byID[id]; t != nil && ok {
			t.stray = false
		}
	}
}

// extend renews the session, and gives the strays the end that they have without
// that.
func (s *session) extend(ctx context.Context, strays []*ticket) error {
	var expires, due moment
	_, err := s.exchange(ctx, keep, func(t *tx) error {
		expires = t.now.add(s.ttl)
		if err := s.checkRow(t); err != nil {
			return err
		}
		if err := t.strand(strays); err != nil {
			return err
		}
		if err := t.exec("UPDATE session SET expires = ? WHERE sid = ?", expires, s.sid); err != nil {
			return err
		}
		var err error
		due, err = t.due()
		return err
	})
	if err != nil {
		return err
	}
	s.expires.Store(int64(expires))
	if due <= s.d.clock.now() {
		return s.d.sweep(ctx)
	}
	s.d.alarm.expect(due)
	return nil
}

// strand gives tickets an end of their own, unless they have one.
func (t *tx) strand(strays []*ticket) error {
	for _, st := range strays {
		q, p, err := t.find(st)
		if err != nil {
			return err
		}
		if p == nil || p.ends != 0 {
			continue
		}
		ttl, expires, err := t.lease(p.sid)
		if err != nil {
			return err
		}
		p.ends = p.end(ttl, expires)
		p.flags |= stray
		if err := t.update(q, p); err != nil {
			return err
		}
		if err := t.store(q); err != nil { // nobody sees a difference: not a new version
			return err
		}
	}
	return nil
}

// find reads a ticket of this process and its queue; nil if it does not stand.
func (t *tx) find(known *ticket) (*queue, *place, error) {
	q, err := t.queue(known.queue)
	if err != nil {
		return nil, nil, err
	}
	p, err := t.place(q, known.n)
	if err == nil && p != nil && p.id != known.id {
		p = nil
	}
	return q, p, err
}

// extendAgain takes the own end from tickets that were strays, and reports which
// of them have not ended before.
func (s *session) extendAgain(ctx context.Context, again []*ticket) (kept map[string]bool, err error) {
	_, err = s.exchange(ctx, keep, func(t *tx) error {
		kept = map[string]bool{}
		for _, st := range again {
			kept[st.id] = false
			q, p, err := t.find(st)
			if err != nil {
				return err
			}
			if p == nil || !p.is(stray) || p.ends <= t.now {
				continue
			}
			p.flags &^= stray
			p.ends = 0
			if err := t.update(q, p); err != nil {
				return err
			}
			kept[st.id] = true
		}
		return nil
	})
	return kept, err
}

// found is what the file says of a ticket that stands.
type found struct {
	ticket *ticket
	flags  int64
	proof  driver.Instant // of one with a fixed end
}

// look reads what has become of tickets, all of this driver if none are named.
func (d *Driver) look(ctx context.Context, ts []*ticket) error {
	if ts == nil {
		d.tickets.mu.Lock()
		for _, t := range d.tickets.byID {
			ts = append(ts, t)
		}
		d.tickets.mu.Unlock()
	}
	_, err := d.examine(ctx, ts)
	return err
}

// examine reads what has become of tickets, takes note of grants and ends that
// no message told of, and repeats the signals that stand. It also goes on with
// grants that somebody has left unfinished.
func (d *Driver) examine(ctx context.Context, ts []*ticket) (map[string]found, error) {
	all := make(map[string]found, len(ts))
	ts = d.tickets.standing(ts)
	var stuck []string
	for len(ts) > 0 {
		some := ts[:min(len(ts), 2000)] // so that no read lasts long
		ts = ts[len(some):]
		err := d.view(ctx, func(c conn, _ moment) error {
			queues := map[string]*queue{}
			for _, t := range some {
				q := queues[t.queue]
				if q == nil {
					var err error
					if q, err = c.queue(t.queue); err != nil {
						return err
					}
					queues[t.queue] = q
					fits, err := c.headFits(q)
					if err != nil {
						return err
					}
					if fits {
						stuck = append(stuck, q.name)
					}
				}
				p, err := c.place(q, t.n)
				if err != nil {
					return err
				}
				if p == nil || p.id != t.id {
					d.tickets.settle(t, nil, nil, 0)
					continue
				}
				f := found{ticket: t, flags: p.flags}
				if p.is(fixed) {
					f.proof = d.instant(p.ends.add(-p.hold))
				}
				d.tickets.settle(t, q, p, f.proof)
				all[t.id] = f
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, q := range stuck {
		if err := d.change(ctx, keep, func(t *tx) error { return t.resume(q) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// headFits reports whether the first that waits could be held.
func (c conn) headFits(q *queue) (fits bool, err error) {
	if q.unknown || q.waiting == 0 {
		return false, nil
	}
	_, err = c.one("SELECT units FROM ticket WHERE queue = ? AND n > ? ORDER BY n LIMIT 1", func(s *sqlite.Stmt) {
		fits = s.ColumnInt64(0) <= q.capacity-q.used
	}, q.name, q.granted)
	return fits, err
}

// settle takes note of what the file says of a ticket.
func (ts *tickets) settle(t *ticket, q *queue, p *place, proof driver.Instant) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byID[t.id] != t {
		return
	}
	if p == nil && t.unsure {
		ts.unlink(t)
		return
	}
	if p == nil {
		ts.end(t)
		return
	}
	t.unsure = false
	if q.held(p) {
		if t.state == waiting {
			t.granted(q.token(p), q.unclean)
		}
		if p.is(fixed) {
			t.hold, t.proof = true, proof
		}
		if q.waiting > 0 {
			t.signal(driver.Wanted)
		}
	}
	if p.is(revoked) {
		t.signal(driver.Revoke)
	}
	if p.is(evicted) {
		t.signal(driver.Evict)
	}
}

// foreign reads the state of a ticket of another session: only one with a fixed
// end is anything to this one.
func (d *Driver) foreign(ctx context.Context, k driver.Ticket) (st driver.State, proof driver.Instant, err error) {
	st = driver.Gone
	if driver.CheckID(k.ID) != nil || driver.CheckName(k.Queue) != nil {
		return st, 0, nil
	}
	err = d.view(ctx, func(c conn, now moment) error {
		_, err := c.one("SELECT flags, ends, hold FROM ticket WHERE queue = ? AND id = ?", func(s *sqlite.Stmt) {
			switch ends := moment(s.ColumnInt64(1)); {
			case s.ColumnInt64(0)&fixed == 0 || ends <= now:
			case s.ColumnInt64(0)&evicted != 0:
				st = driver.Evicted
			default:
				st, proof = driver.Kept, d.instant(ends-moment(s.ColumnInt64(2)))
			}
		}, k.Queue, k.ID)
		return err
	})
	return st, proof, err
}
