package redislock

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if err := s.usable(ctx); err != nil {
		return driver.Ticket{}, err
	}
	q, err := s.check(&r)
	if err != nil {
		return driver.Ticket{}, err
	}
	p, err := s.take(q, &r)
	if err != nil {
		return driver.Ticket{}, err
	}
	var t driver.Ticket
	if r.Retry && s.stood(p) {
		t, err = s.rejoin(ctx, p, &r)
	} else {
		t, err = s.join(ctx, p, &r)
	}
	switch {
	case err == nil && t.Held:
		t, err = s.confirm(ctx, p, t)
	case r.Retry && errors.Is(err, driver.ErrBusy): // one that was sent before may yet arrive
		if failed := s.leave(ctx, p.id, q, true); failed != nil && !errors.Is(failed, driver.ErrGone) {
			err = failed
		}
	}
	select {
	case <-s.over: // it was closed meanwhile, and may have missed this ticket
		if err == nil {
			_ = s.leave(ctx, p.id, q, false)
		}
		return driver.Ticket{}, driver.ErrSession
	default:
	}
	return t, err
}

func (s *session) isHeld(p *place) bool {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return p.state == held
}

func (s *session) stood(p *place) bool {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return p.state != unknown
}

// rejoin answers a Join of a ticket that has stood: it must not come back if it
// has ended since.
func (s *session) rejoin(ctx context.Context, p *place, r *driver.Request) (driver.Ticket, error) {
	became, err := s.ask(ctx, p, 1)
	switch {
	case err != nil:
		return driver.Ticket{}, err
	case became == driver.Gone:
		return driver.Ticket{}, driver.ErrGone
	case r.NoWait && !s.isHeld(p):
		if err := s.leave(ctx, p.id, p.q, true); err != nil && !errors.Is(err, driver.ErrGone) {
			return driver.Ticket{}, err
		}
		return driver.Ticket{}, driver.ErrBusy
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p.told = true
	return p.ticket(), nil
}

func (s *session) check(r *driver.Request) (*queue, error) {
	if err := driver.CheckID(r.ID); err != nil {
		return nil, err
	}
	if err := driver.CheckRequest(r); err != nil {
		return nil, err
	}
	return s.d.queue(r.Queue)
}

// take finds or makes the place of a ticket. It is there before the Join is sent,
// since the news of the grant may come before the Join's answer.
func (s *session) take(q *queue, r *driver.Request) (*place, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if p := s.places[r.ID]; p != nil {
		if p.q.name != r.Queue {
			return nil, driver.ErrMismatch
		}
		r.Retry, p.sure, p.joined = true, false, s.d.Now()
		return p, nil
	}
	if r.Retry && s.left.Has(r.ID) {
		return nil, driver.ErrGone
	}
	number := newNumber()
	for s.d.places[number] != nil {
		number = newNumber()
	}
	p := &place{number: number, id: r.ID, q: q, s: s, hold: min(r.Hold, maxHold), robust: r.Robust, joined: s.d.Now()}
	s.places[r.ID], s.d.places[p.number] = p, p
	return p, nil
}

func (s *session) join(ctx context.Context, p *place, r *driver.Request) (driver.Ticket, error) {
	flags := "-"
	if r.Robust {
		flags = "o"
	}
	rest := " " + s.owner + " "
	if len(r.Note) > 0 {
		rest += url.QueryEscape(string(r.Note))
	}
	number := strconv.FormatUint(p.number, 10)
	capacity := strconv.FormatInt(r.Capacity, 10)
	if r.Units == r.Capacity && public(r.Kind) && !r.Retry && !p.q.busy.Load() {
		t, ok, err := s.joinLone(ctx, p, r, flags, " "+number+" "+string(r.Kind)+" "+capacity+" "+s.ttlUS+" "+micros(p.hold)+rest)
		if ok || err != nil {
			return t, err
		}
		p.q.busy.Store(true)
	}
	if p.hold > 0 {
		flags += "h"
	}
	c := call{joinScript, p.q.keys, []string{
		r.ID, string(r.Kind), strconv.FormatInt(r.Units, 10), capacity, s.ttlUS, micros(p.hold), flags, s.id, number, rest,
		digit(r.NoWait), digit(r.Retry),
	}}
	for {
		sent := s.d.Now()
		answer, err := s.d.runN(ctx, c, 6)
		if err != nil {
			return driver.Ticket{}, err
		}
		code, more := answer[0], answer[1] != 0
		if code == codeBusy && more { // dead ones were in front
			continue
		}
		if more {
			s.d.settle(p.q)
		}
		return s.joined(p, r, sent, answer)
	}
}

// joined takes note of the answer of join.lua.
func (s *session) joined(p *place, r *driver.Request, sent driver.Instant, answer []int64) (driver.Ticket, error) {
	code := answer[0]
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	err := codeError(code)
	if code == codeBack {
		err = p.q.back()
	}
	if err != nil {
		if s.d.forget(p); code == codeGone {
			s.left.Add(r.ID)
		}
		return driver.Ticket{}, err
	}
	p.sure = !r.Retry
	p.sent, p.server = sent, answer[2]
	if !p.fixed {
		p.proof = sent
	}
	if code == codeWaits {
		if p.state == unknown {
			p.state = waiting
			p.lookAfter(s.d.Now(), answer[3])
			if p.doubted { // it was heard of before this answer
				p.doubted = false
				p.lookAfter(s.d.Now(), 1)
			}
		} else if p.granted != 0 {
			p.proof = p.dated(p.granted)
		}
		p.told = p.state == held // the news of its grant may have been faster
		return p.ticket(), nil
	}
	if left := time.Duration(answer[5]) * time.Microsecond; left >= 0 { // nothing extends it
		span := s.ttl
		if p.fixed = len(answer) > 6 && answer[6] == 1; p.fixed {
			span = p.hold
		}
		p.proof = min(sent, sent.Add(left-span))
	}
	p.isHeld(uint64(answer[3]), answer[4] != 0)
	p.told = true
	return p.ticket(), nil
}

// joinLone takes the short way, which only an exclusive lock has that nobody else
// wants. It reports false if that was not open.
func (s *session) joinLone(ctx context.Context, p *place, r *driver.Request, flags, rest string) (driver.Ticket, bool, error) {
	span := s.ttl
	if p.hold > 0 {
		span = p.hold
	}
	sent := s.d.Now()
	token, err := s.d.run1(ctx, call{takeScript, p.q.take, []string{s.head(r.ID), flags, rest, millis(span), p.robustMark()}})
	if err != nil || token == 0 {
		return driver.Ticket{}, false, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	p.lone, p.sure, p.proof, p.fixed = true, true, sent, p.hold > 0
	p.isHeld(uint64(max(token, -token)), token < 0)
	p.told = true
	return p.ticket(), true, nil
}

// head begins what take.lua writes, up to the flags.
func (s *session) head(id string) string { return "interlock " + id + " " + s.id + " " }

// millis rounds up, by more than the age of the time that the server keeps for
// the expiry of keys.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds()+2, 10) }

// public reports whether other programs may use the lock's key too.
func public(k driver.Kind) bool {
	return k == driver.Mutex || k == driver.RWMutex || k == driver.Election
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
