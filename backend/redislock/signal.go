package redislock

import (
	"context"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return s.signals.Next(ctx, s.usable, s.over, s.d.ctx.Done())
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
		d.topics.Changed(number)
	case "p":
		number, _ := strconv.ParseUint(rest, 10, 64)
		d.feed.hear(number)
	default:
		d.granted(what, rest)
	}
}

func (p *place) signal(demand driver.Demand) { p.s.signals.Add(demand, p.q.name, p.id) }

func (d *Driver) demanded(what string, p *place) {
	switch what {
	case "w":
		p.signal(driver.Wanted)
	case "r":
		p.signal(driver.Revoke)
	case "e":
		p.signal(driver.Evict)
	case "l":
		if p.state == waiting {
			p.lookAfter(d.Now(), 1)
		}
	case "x":
		p.signal(driver.Evict)
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
		p.signal(driver.Wanted)
	}
}
