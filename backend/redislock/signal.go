package redislock

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// signals are what a session has not been told yet, each once.
type signals struct {
	mu    sync.Mutex
	queue []driver.Signal
	has   map[driver.Signal]bool
	bell  chan struct{}
}

func newSignals() signals {
	return signals{has: map[driver.Signal]bool{}, bell: make(chan struct{}, 1)}
}

func (s *signals) add(demand driver.Demand, p *place) {
	g := driver.Signal{Demand: demand, Queue: p.q.name, ID: p.id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[g] {
		return
	}
	s.has[g] = true
	s.queue = append(s.queue, g)
	s.ring()
}

func (s *signals) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

func (s *signals) take() (driver.Signal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return driver.Signal{}, false
	}
	g := s.queue[0]
	s.queue = s.queue[1:]
	delete(s.has, g)
	if len(s.queue) > 0 {
		s.ring() // for another caller
	}
	return g, true
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	for {
		if err := s.usable(ctx); err != nil {
			return driver.Signal{}, err
		}
		if g, ok := s.signals.take(); ok {
			return g, nil
		}
		select {
		case <-s.signals.bell:
		case <-ctx.Done():
		case <-s.over:
		case <-s.d.ctx.Done():
		}
	}
}

// hear reads a message that a script has sent to this client:
//
//	NUMBER TOKEN FLAGS [TIME]  granted; flags i: inherits, w: another waits behind
//	w NUMBER…                  another waits behind these
//	r NUMBER                   please give it up
//	e NUMBER                   it is not renewed any more
//	x NUMBER                   it is gone
//	l NUMBER                   it is the first in line now: look when to look
//	f NUMBER                   what is followed has changed
//	p NUMBER                   the echo of a heartbeat
//
// It runs where the connection is read and waits for nothing.
func (d *Driver) hear(message string) {
	what, rest, _ := strings.Cut(message, " ")
	switch what {
	case "w", "r", "e", "x", "l":
		d.mu.Lock()
		defer d.mu.Unlock()
		for n := range strings.SplitSeq(rest, " ") {
			number, _ := strconv.ParseUint(n, 10, 64)
			if p := d.places[number]; p != nil {
				d.demanded(what, p)
			}
		}
	case "f":
		number, _ := strconv.ParseUint(rest, 10, 64)
		d.mu.Lock()
		defer d.mu.Unlock()
		if f := d.heeded[number]; f != nil {
			f.changed()
		}
	case "p":
		number, _ := strconv.ParseUint(rest, 10, 64)
		d.feed.hear(number)
	default:
		d.granted(what, rest)
	}
}

func (d *Driver) demanded(what string, p *place) {
	switch what {
	case "w":
		p.s.signals.add(driver.Wanted, p)
	case "r":
		p.s.signals.add(driver.Revoke, p)
	case "e":
		p.s.signals.add(driver.Evict, p)
	case "l":
		if p.state == waiting {
			p.lookAfter(d.Now(), 1)
		}
	case "x":
		p.s.signals.add(driver.Evict, p)
		d.ended(p)
	}
}

func (d *Driver) granted(who, rest string) {
	number, err := strconv.ParseUint(who, 10, 64)
	text, rest, _ := strings.Cut(rest, " ")
	token, err2 := strconv.ParseUint(text, 10, 64)
	if err != nil || err2 != nil {
		return // of a later version
	}
	flags, at, fixed := strings.Cut(rest, " ")
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[number]
	if p == nil {
		return
	}
	if fixed {
		p.fixed = true
		p.granted, _ = strconv.ParseInt(at, 10, 64)
		if p.server != 0 {
			p.proof = p.dated(p.granted)
		}
	}
	p.isHeld(token, strings.Contains(flags, "i"))
	if strings.Contains(flags, "w") {
		p.s.signals.add(driver.Wanted, p)
	}
}
