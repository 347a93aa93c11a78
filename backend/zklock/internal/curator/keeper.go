package curator

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// A ticket that is held for longer than this is watched: by others, its end;
// by this session, whether anybody waits. Shorter ones are spared the cost.
const settled = 20 * time.Millisecond

// keep does what nobody asks for, once for all tickets: it removes those that
// have not been renewed or have ended, and notices who waits behind them.
func (s *session) keep() {
	ctx, cancel := s.within(s.d.ctx)
	defer cancel()
	lanes := map[*lane]*zk.Watch{}
	defer func() {
		for _, w := range lanes {
			s.l.Ignore(w)
		}
	}()
	for {
		timer := time.NewTimer(s.rest())
		select {
		case <-s.bell:
		case <-timer.C:
		case <-s.over:
			timer.Stop()
			s.end()
			return
		case <-s.d.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		if id, _ := s.l.State(); id != s.zk {
			if id != 0 {
				s.isOver()
			}
			select { // nothing can be done now
			case <-time.After(5 * time.Millisecond):
			case <-s.over:
			case <-s.d.ctx.Done():
			}
			continue
		}
		s.read(ctx)
		s.sweep(ctx)
		s.heed(ctx, lanes)
		s.visit(ctx)
	}
}

// rest is how long the keeper sleeps.
func (s *session) rest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := min(max(s.ttl/20, settled), 250*time.Millisecond)
	now := s.d.Now()
	for _, p := range s.places {
		if p.state == held && !p.told && !p.fixed && p.own == nil {
			left := p.since.Add(settled).Sub(now)
			if left <= 0 { // it could not be watched yet
				left = settled
			}
			rest = min(rest, left)
		}
	}
	return rest
}

// sweep removes the tickets whose time is over.
func (s *session) sweep(ctx context.Context) {
	now := s.d.Now()
	var over []*place
	s.mu.Lock()
	for _, p := range s.places {
		end := p.extended.Add(s.ttl)
		if p.fixed || p.evicted {
			end = p.end
		}
		if p.doomed || now >= end {
			p.doomed = true
			over = append(over, p)
		}
	}
	s.mu.Unlock()
	for _, p := range over {
		if err := s.expire(ctx, p); zk.Fatal(err) != nil {
			return
		}
	}
}

// expire removes the node that a ticket is known by, and no other: one that has taken its
// place meanwhile may have another end.
func (s *session) expire(ctx context.Context, p *place) error {
	s.mu.Lock()
	fixed, n, mark, ours := p.fixed, p.n, p.kept && p.whole, p.edition
	s.mu.Unlock()
	if n.node == "" || p.q.leases != nil || p.q.meets {
		return s.quit(ctx, p, false)
	}
	if fixed {
		now, _, _, err := s.d.clock(ctx, s.l)
		if err != nil {
			return err
		}
		if left := n.left(now); left > 0 {
			s.mu.Lock()
			p.end, p.doomed = s.d.Now().Add(left), false
			s.mu.Unlock()
			return nil
		}
	}
	err := s.d.take(ctx, s.l, p.q, n, mark, ours)
	if errors.Is(err, zk.ErrNoNode) {
		return s.relocate(ctx, p)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	p.forget()
	s.mu.Unlock()
	return nil
}

// heed watches the queues of tickets that have been held for some time, until
// somebody waits behind them, and the tickets themselves.
func (s *session) heed(ctx context.Context, lanes map[*lane]*zk.Watch) {
	now := s.d.Now()
	watched := map[*lane]bool{}
	var unseen []*place
	s.mu.Lock()
	for _, p := range s.places {
		if p.state != held || p.n.node == "" || now.Sub(p.since) < settled {
			continue
		}
		if p.own == nil || p.ownFired() {
			unseen = append(unseen, p)
		}
		if !p.told {
			watched[p.q] = true
		}
	}
	s.mu.Unlock()
	for q, w := range lanes {
		if !watched[q] {
			s.l.Ignore(w)
			delete(lanes, q)
		}
	}
	began := now
	for q := range watched {
		if w := lanes[q]; w != nil {
			if _, fired := w.Fired(); !fired {
				continue
			}
		}
		asked := s.d.Now()
		w := s.l.watch(q.crowd(), true, s.bell)
		found, err := s.l.List(ctx, q.crowd(), true)
		if err != nil {
			s.l.Ignore(w)
			delete(lanes, q)
			if !errors.Is(err, zk.ErrNoNode) {
				return
			}
			continue
		}
		lanes[q] = w
		if q.leases != nil {
			s.leasesWanted(q, len(found.Names))
		} else {
			all := parseAll(found.Names)
			s.edit(q, all, edition(found.Stat.Version), asked)
			s.wanted(q, all)
		}
		if s.d.Now().Sub(began) > s.ttl/10 {
			ring(s.bell) // the rest after what is urgent
			return
		}
	}
	for _, p := range unseen {
		s.attend(ctx, p)
		if s.d.Now().Sub(began) > s.ttl/10 {
			ring(s.bell)
			return
		}
	}
}

// edit notes which edition of the queue's node is ours, for those who do not know, and who
// held already when it was asked about: others were granted by a later one.
func (s *session) edit(q *lane, all line, e edition, asked driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range all {
		if p := s.places[n.id]; p != nil && p.q == q && p.state == held && p.edition == anyEdition && p.since <= asked {
			p.edition = e
		}
	}
}

func (p *place) ownFired() bool {
	_, fired := p.own.Fired()
	return fired
}

// wanted signals that somebody waits behind tickets of this session.
func (s *session) wanted(q *lane, all line) {
	if len(all) == 0 || all.holds(len(all)-1) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range all {
		p := s.places[n.id]
		if p == nil || p.q != q || p.state != held || p.told {
			continue
		}
		for j := i + 1; j < len(all); j++ {
			if !all.holds(j) {
				p.told = true
				s.signals.Add(driver.Wanted, q.name, n.id)
				break
			}
		}
	}
}

// attend watches the node of a held ticket: it may be removed, or, as Curator does
// it, be asked for by its data.
func (s *session) attend(ctx context.Context, p *place) {
	s.mu.Lock()
	node, path := p.n.node, p.path()
	s.mu.Unlock()
	w := s.l.watch(path, false, s.bell)
	c, err := s.l.See(ctx, path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.state != held || p.n.node != node {
		s.l.Ignore(w)
		return
	}
	if errors.Is(err, zk.ErrNoNode) {
		s.l.Ignore(w)
		s.d.background(func(ctx context.Context) {
			if err := s.verify(ctx, p); errors.Is(err, driver.ErrGone) {
				s.signals.Add(driver.Evict, p.q.name, p.req.ID)
			}
		})
		return
	}
	if err != nil {
		s.l.Ignore(w)
		return
	}
	p.own = w
	if string(c.Data) == revocation {
		s.signals.Add(driver.Revoke, p.q.name, p.req.ID)
	}
}

// revocation is what Curator writes into the node of a ticket to have it given up.
const revocation = "__REVOKE__"
