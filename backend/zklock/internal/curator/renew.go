package curator

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Renew asks the leader, for a follower that has lost it answers everything
// else by itself, while the leader lets the session expire. What it proves is
// an earlier exchange: see internal/zk.
func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	began := s.d.Now()
	if s.l.Own {
		answered := make(chan struct{})
		defer close(answered)
		go s.l.DropIfSilent(s.ttl/4, answered)
	}
	s.renewed.Store(int64(began))
	if err := s.sync(ctx); err != nil {
		return nil, s.failed(limit, err)
	}
	s.read(ctx) // what was put there before the sync has been announced
	if err := s.holds(ctx); err != nil {
		return nil, s.failed(limit, err)
	}
	named := make(map[string]bool, len(known))
	var answers []driver.Renewed
	others := map[string][]driver.Ticket{}
	s.mu.Lock()
	for _, t := range known {
		named[t.ID] = true
		p := s.places[t.ID]
		switch {
		case p == nil && s.left.Has(t.ID): // while the sync was under way, perhaps with thousands of others
			answers = append(answers, driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Gone})
		case p == nil || p.q.name != t.Queue || p.fixed:
			others[t.Queue] = append(others[t.Queue], t)
		case p.evicted:
			answers = append(answers, driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Evicted})
		case p.doomed:
			answers = append(answers, driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Gone})
		default:
			p.extended = max(p.extended, began)
			answers = append(answers, driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Kept, Proof: p.proof()})
		}
	}
	for id, p := range s.places {
		if !named[id] && !p.fixed && !p.doomed && p.state != joining {
			answers = append(answers, driver.Renewed{ID: id, Queue: p.q.name, State: driver.Stray})
		}
	}
	s.mu.Unlock()
	for queue, tickets := range others {
		more, err := s.others(ctx, queue, tickets)
		if err != nil {
			return nil, s.failed(limit, err)
		}
		answers = append(answers, more...)
	}
	return answers, nil
}

// others finds out what became of tickets with a fixed end, which others may change.
// No other ticket that is not of this session stands here.
func (s *session) others(ctx context.Context, queue string, tickets []driver.Ticket) ([]driver.Renewed, error) {
	all, err := s.d.line(ctx, s.l, s.d.lane(queue))
	if err != nil {
		return nil, err
	}
	var answers []driver.Renewed
	for _, t := range tickets {
		r := driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Gone}
		if i, ok := all.place(t.ID); ok && all[i].until != 0 {
			r.State, r.Proof = driver.Kept, s.l.Proven()
			if p := s.place(t.ID); p != nil {
				s.mu.Lock()
				r.Proof = p.got.Proof
				s.mu.Unlock()
			}
			if all[i].evicted {
				r.State = driver.Evicted
			}
		}
		answers = append(answers, r)
	}
	return answers, nil
}
