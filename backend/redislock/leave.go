package redislock

import (
	"context"
	"strconv"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := driver.CheckID(t.ID); err != nil {
		return err
	}
	q, err := s.d.queue(t.Queue)
	if err != nil {
		return err
	}
	return s.leave(ctx, t.ID, q, clean)
}

func (s *session) leave(ctx context.Context, id string, q *queue, clean bool) error {
	s.d.mu.Lock()
	p := s.places[id]
	if p != nil && p.q != q && p.q.name != q.name {
		s.d.mu.Unlock()
		return driver.ErrGone
	}
	lone := p != nil && p.lone && p.state == held
	s.d.mu.Unlock()
	if lone {
		ok, err := s.d.run1(ctx, call{dropScript, q.loneKeys(), []string{s.head(id), p.mark(clean)}})
		if err != nil {
			return err
		}
		if ok == 1 {
			s.hasLeft(p, id)
			return nil
		}
		q.busy.Store(true)
	}
	c := call{leaveScript, q.keys, []string{id, s.id, digit(clean), s.ttlUS, s.ttlUS, "0"}}
	if p != nil {
		s.d.mu.Lock()
		c = p.leaving(clean, false)
		p.sure = false
		s.d.mu.Unlock()
	}
	answer, err := s.d.runN(ctx, c, 3)
	if err != nil {
		return err
	}
	if answer[1] != 0 {
		q.busy.Store(false)
	}
	if answer[2] != 0 {
		s.d.settle(q)
	}
	s.hasLeft(p, id)
	return codeError(answer[0])
}

// leaving is the script that takes the ticket out, unless it has a fixed end and is
// to stay then. A Join that may still be under way is refused when it arrives.
func (p *place) leaving(clean, unlessFixed bool) call {
	refuse := p.s.ttlUS
	if p.sure {
		refuse = "0"
	}
	return call{leaveScript, p.q.keys, []string{p.id, p.s.id, digit(clean), refuse, p.s.ttlUS, digit(unlessFixed)}}
}

// mark is what take.lua finds after this ticket, if that must be written.
func (p *place) mark(clean bool) string {
	if !clean {
		return "!" + strconv.FormatUint(p.token, 10)
	}
	if p.robust {
		return "=" + strconv.FormatUint(p.token, 10)
	}
	return ""
}

func (s *session) hasLeft(p *place, id string) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.left.Add(id)
	if p != nil {
		s.d.ended(p)
	}
}
