package redislock

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return s.signals.Next(ctx, s.usable, s.over, s.d.ctx.Done())
}

// hear reads a message that a script has sent to this client:
//
//	NUMBER TOKEN FLAGS:PROOF [TIME]  granted; flags i: inherits, w: another waits behind
//	w NUMBER…                        another waits behind these
//	r NUMBER                         please give it up
//	e NUMBER                         it is not renewed any more
//	x NUMBER                         it is gone
//	l NUMBER                         it is the first in line now: look when to look
//	f NUMBER                         what is followed has changed
//	p NUMBER                         the echo of a heartbeat
//
// Whoever may publish on the server can send them, too, also without a right to a single key. So a
// grant has a proof, and all others are no more than a reason to ask the server, or to hurry. A
// grant without one, as scripts of earlier releases send it, is such a reason as well.
//
// It runs where the connection is read and waits for nothing.
func (d *Driver) hear(message string) {
	what, rest, _ := strings.Cut(message, " ")
	switch what {
	case "w", "r", "e", "x", "l":
		for n := range strings.SplitSeq(rest, " ") {
			number, _ := strconv.ParseUint(n, 10, 64)
			d.hint(what, number)
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

// newNumber is a number that a stranger does not guess, as large as a Lua number can be. It is not 0.
func newNumber() uint64 { return 1 + rand.Uint64N(1<<53-1) }

func (p *place) signal(demand driver.Demand) { p.s.signals.Add(demand, p.q.name, p.id) }

// hint takes note of a message that proves nothing.
func (d *Driver) hint(what string, number uint64) {
	d.mu.Lock()
	p := d.places[number]
	if p == nil {
		d.mu.Unlock()
		return
	}
	switch {
	case what == "w":
		p.signal(driver.Wanted)
	case p.state == unknown:
		p.doubted = true
	case what != "l":
		d.mu.Unlock()
		d.learn(p)
		return
	case p.state == waiting:
		p.lookAfter(d.Now(), 1)
	}
	d.mu.Unlock()
}

// learn asks the server what has become of a ticket, and tells the holder. If that fails, the
// next heartbeat does.
func (d *Driver) learn(p *place) {
	if !d.learning.Begin(p.id) {
		return
	}
	d.background(func(ctx context.Context) {
		for more := true; more; more = d.learning.More(p.id) {
			_, err := p.s.ask(ctx, p, 0)
			if err != nil {
				d.learning.End(p.id)
				return
			}
			d.mu.Lock()
			if p.state == gone {
				p.signal(driver.Evict)
			}
			d.mu.Unlock()
		}
	})
}

// proves reports whether a message of a grant comes from somebody who knows the ticket: see news
// in format.lua.
func (p *place) proves(proof, message string) bool {
	sum := sha1.Sum([]byte(message + " " + p.id))
	return proof == hex.EncodeToString(sum[:])[:20]
}

func (d *Driver) granted(who, rest string) {
	number, err := strconv.ParseUint(who, 10, 64)
	text, rest, _ := strings.Cut(rest, " ")
	token, err2 := strconv.ParseUint(text, 10, 64)
	if err != nil || err2 != nil {
		return // of a later version
	}
	flags, at, fixed := strings.Cut(rest, " ")
	flags, proof, _ := strings.Cut(flags, ":")
	message := who + " " + text + " " + flags
	if fixed {
		message += " " + at
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[number]
	switch {
	case p == nil:
		return
	case !p.proves(proof, message) || token == 0 || token >= driver.MaxToken:
		if p.doubted = p.state == unknown; p.state == waiting {
			p.lookAfter(d.Now(), 1)
		}
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
