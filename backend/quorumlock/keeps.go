package quorumlock

import (
	"context"
	"errors"
	"slices"

	"github.com/interlock-go/interlock/driver"
)

// A member may say that others hold a queue while a majority grants it:
//
//   - It is right: another member has given the place of a live holder away, since its clock was set
//     forward. The holder does not know yet. It knows within its TTL, or within its fixed time, and leaves.
//   - It is wrong: it keeps the place of a dead client, since its clock was set back.
//
// Who is in the way is remembered as an objection. It is over when the same places have stood so
// long since: by the clock of this client, not by those of members.
type objection struct {
	ids   []string // of the places that are held
	until driver.Instant
	over  bool
}

// errKept is why a member is not the line of a ticket.
var errKept = errors.New("it keeps a place that a majority has given up")

// object looks who holds a queue at the member, and since when that is known.
func (l *link) object(ctx context.Context, d driver.Driver, queue string) (o objection, q driver.Queue, err error) {
	s := l.s
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	asked := s.d.now()
	c, err := d.Load(ctx, ttlCell) // has the TTL of each client that has joined there
	if err != nil {
		return o, q, err
	}
	if q, err = d.Follow(ctx, queue, ""); err != nil {
		return o, q, err
	}
	span := max(parseTTL(c), s.ttl())
	for _, m := range q.Members {
		if m.Held {
			o.ids = append(o.ids, m.ID)
		}
		if m.Fixed {
			span = max(span, m.Left)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := l.objections[queue]
	if known && slices.Equal(last.ids, o.ids) {
		o.until, o.over = last.until, asked >= last.until
	} else {
		o.until = s.d.now().Add(span)
	}
	if len(o.ids) == 0 {
		delete(l.objections, queue)
		return o, q, nil
	}
	if l.objections == nil || len(l.objections) > 1000 {
		l.objections = map[string]objection{}
	}
	l.objections[queue] = o
	return o, q, nil
}

// disputed lists the members that are in the way of a majority. Those that refuse a place are if another may
// have a majority with those that have given up its places without a Leave. And the line is if the ticket
// only tries: it would pass those who wait there. s.mu is held.
func (t *ticket) disputed() (all []int) {
	for i, p := range t.places {
		if p.state == refused && p.err == nil && !p.overruled && (t.mayPass() || i == t.line) {
			all = append(all, i)
		}
	}
	return all
}

// mayPass reports whether another may have a majority with the places here that were given up without a Leave, so that
// this ticket would pass it. s.mu is held.
func (t *ticket) mayPass() bool {
	others := len(t.places)
	for _, p := range t.places {
		if p.state == granted && !p.inherited {
			others--
		}
	}
	return others >= t.s.d.majority
}

// challenge waits until those who are in the way at a member have left, or have been there for too long.
// Meanwhile the ticket keeps its majority. A try does not wait. s.mu is held.
func (t *ticket) challenge(i int) {
	s, l := t.s, t.s.links[i]
	d, at := l.d, l.at
	t.places[i].challenged = true
	if !t.req.NoWait && !t.answered {
		t.answered, t.stood = true, true
		t.tell()
	}
	s.d.background(func() {
		var first []string
		for {
			o, q, err := l.object(t.ctx, d, t.req.Queue)
			s.mu.Lock()
			p := &t.places[i]
			stays := (i == t.line || !fits(q, t.units)) && slices.ContainsFunc(o.ids, func(id string) bool { return first == nil || slices.Contains(first, id) })
			switch {
			case t.ctx.Err() != nil || t.state != pursued || p.state != refused:
				s.mu.Unlock()
				return
			case err != nil:
				l.silent(at, err)
				p.err, p.life = err, l.life
			case o.over || !stays:
				p.overruled = true
			case t.req.NoWait:
				t.busy()
			default:
				first = o.ids
				s.mu.Unlock()
				ctx, cancel := context.WithTimeout(t.ctx, o.until.Sub(s.d.now()))
				_, _ = d.Follow(ctx, t.req.Queue, q.Version)
				cancel()
				continue
			}
			t.poke()
			s.mu.Unlock()
			return
		}
	})
}

// fits reports whether a ticket of so many units may hold beside those who hold, as one reader beside others. At its
// line that does not count: others wait there.
func fits(q driver.Queue, units int64) bool {
	for _, m := range q.Members {
		if m.Held {
			units += m.Units
		}
	}
	return units <= q.Capacity
}

// sweep looks, once in a TTL, for lines that do not move though a majority would grant. Renew calls it, since
// a waiter causes no other exchanges. s.mu is held.
func (s *session) sweep(named map[string]*ticket, now driver.Instant) {
	if now < s.swept.Add(s.granted) {
		return
	}
	s.swept = now
	type line struct {
		l     *link
		queue string
	}
	least := map[line]int64{} // units
	for _, t := range named {
		if t.waitsAt() >= 0 && now >= t.began.Add(s.granted) {
			at := line{s.links[t.line], t.req.Queue}
			if n, ok := least[at]; !ok || t.units < n {
				least[at] = t.units
			}
		}
	}
	for at, units := range least {
		var others []driver.Driver
		for _, l := range s.counting() {
			if l != at.l {
				others = append(others, l.d)
			}
		}
		d := at.l.d
		s.d.background(func() { s.lookBehind(at.l, d, others, at.queue, units) })
	}
}

// lookBehind has tickets wait at another line if this one keeps a place that a majority has given up.
func (s *session) lookBehind(line *link, d driver.Driver, others []driver.Driver, queue string, units int64) {
	free := 0
	for _, d := range others {
		ctx, cancel := context.WithTimeout(s.ctx, s.patience)
		q, err := d.Follow(ctx, queue, "")
		cancel()
		for _, m := range q.Members {
			units += m.Units
		}
		if err == nil && (len(q.Members) == 0 || units <= q.Capacity) {
			free++
		}
		for _, m := range q.Members {
			units -= m.Units
		}
	}
	if free < s.d.majority {
		return
	}
	o, _, err := line.object(s.ctx, d, queue)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = s.d.now().Add(-s.granted) // with the next heartbeat again
	if err != nil || !o.over {
		return
	}
	for _, t := range s.tickets {
		if i := t.waitsAt(); i >= 0 && s.links[i] == line && t.req.Queue == queue {
			t.places[i].err = errKept
			t.restart()
			t.poke()
		}
	}
}

// waitsAt is the line at which the ticket waits, or -1. s.mu is held.
func (t *ticket) waitsAt() int {
	if t.state == pursued && t.line >= 0 && t.places[t.line].state == waiting {
		return t.line
	}
	return -1
}
