package quorumlock

import (
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// pursue gets a majority of places, or gives up. It looks at the ticket and takes the next step, again
// whenever something has changed.
func (t *ticket) pursue() {
	s := t.s
	var b backoff.Backoff
	for {
		s.mu.Lock()
		rest := t.step()
		over := t.state != pursued
		s.mu.Unlock()
		if over {
			return
		}
		if rest {
			if b.Sleep(t.ctx) != nil {
				return
			}
			continue
		}
		select {
		case <-t.wake:
		case <-t.ctx.Done():
			return
		}
	}
}

// step takes the next step. It reports whether to begin again after a pause. s.mu is held.
func (t *ticket) step() (rest bool) {
	s := t.s
	now := s.d.now()
	switch {
	case t.state != pursued:
		return false
	case t.evicted, !t.req.NoWait && now >= t.named.Add(s.granted):
		s.left.Add(t.req.ID)
		t.end(driver.ErrGone, true)
		return false
	}
	t.dropLost()
	counting := s.counting()
	if len(counting) < s.d.majority {
		if !t.stood {
			t.end(t.tooFew(), true)
			return false
		}
		t.restart() // who cannot have a majority stands in nobody's way
		return false
	}
	if t.line < 0 {
		if t.quiet() {
			t.start(counting)
		}
		return false
	}
	if !slices.Contains(counting, s.links[t.line]) {
		t.restart()
		return true
	}
	line := &t.places[t.line]
	switch line.state {
	case joining:
		return false
	case refused:
		if rest, ended := t.refusedAtLine(); ended {
			return rest
		}
	case untried:
		t.restart()
		return true
	case waiting:
		t.wait()
		return false
	}
	return t.win(counting, now)
}

// dropLost gives up places at members that do not count any more.
func (t *ticket) dropLost() {
	for i := range t.places {
		p, l := &t.places[i], t.s.links[i]
		if p.id == "" || l.counts() && l.at == p.at && l.life == p.life {
			continue
		}
		t.giveBack(i, !p.inherited)
	}
}

// restart gives everything back and begins anew.
func (t *ticket) restart() {
	for i := range t.places {
		t.giveBack(i, !t.places[i].inherited)
	}
	t.line = -1
}

// start joins at the first member, which is the line, and tries the others. A member that has failed in the
// last attempt, and answers again, comes later (see win): it may grant nothing.
func (t *ticket) start(counting []*link) {
	t.began, t.grace = t.s.d.now(), 0
	bad := func(l *link) bool { return t.hasFailed(l) || l.objections[t.req.Queue].over }
	if good := slices.DeleteFunc(slices.Clone(counting), bad); len(good) >= t.s.d.majority {
		counting = good
	}
	t.line = counting[0].i
	for n, l := range counting {
		t.join(l.i, n > 0 || t.req.NoWait)
	}
}

// hasFailed reports whether a call there has failed in this life of the member.
func (t *ticket) hasFailed(l *link) bool {
	p := &t.places[l.i]
	return p.err != nil && p.life == l.life
}

// refusedAtLine is called when the line has refused the ticket, or has failed. It reports whether that is the
// end of the step.
func (t *ticket) refusedAtLine() (rest, ended bool) {
	p := t.places[t.line]
	switch {
	case p.mismatch:
		t.end(driver.ErrMismatch, true)
	case p.err != nil && driver.IsPermanent(p.err) && t.isRefused():
		t.end(p.err, true)
	case p.err != nil:
		t.restart() // without it, if there are enough others
		return true, true
	case t.req.NoWait:
		return false, false // a majority may grant without it
	default:
		t.busy()
	}
	return false, true
}

// busy ends a try.
func (t *ticket) busy() {
	if t.req.Retry {
		t.s.left.Add(t.req.ID)
	}
	t.end(driver.ErrBusy, true)
}

// wait gives back what comes after the line.
func (t *ticket) wait() {
	if !t.answered {
		t.answered, t.stood = true, true
		t.tell()
	}
	t.leaveBehind(t.s.links[t.line])
}

func (t *ticket) leaveBehind(line *link) {
	for i := range t.places {
		if p := &t.places[i]; p.state == granted && byLife(t.s.links[i], line) > 0 {
			t.giveBack(i, !p.inherited)
		}
	}
}

// win is called while the ticket is held at its line. It makes it held once a majority of places have
// been verified, and give larger tokens to those who come later.
func (t *ticket) win(counting []*link, now driver.Instant) (rest bool) {
	s := t.s
	got, open := 0, 0
	for _, l := range counting {
		switch t.places[l.i].state {
		case untried:
			t.join(l.i, true)
			open++
		case joining:
			open++
		case granted:
			got++
		}
	}
	switch {
	case got+open < s.d.majority:
		return t.moveOn(counting)
	case got < s.d.majority:
		return false
	case open > 0 && t.grace == 0:
		// The others have as long as it took so far: to hold all members spares joining there later.
		wait := now.Sub(t.began) + time.Millisecond
		t.grace = now.Add(wait)
		time.AfterFunc(wait, t.poke)
		return false
	case open > 0 && (now < t.grace || t.mayPass()): // the holder may stand where the answer is late
		return false
	}
	if in := t.disputed(); len(in) > 0 {
		for _, i := range in {
			if !t.places[i].challenged {
				t.challenge(i)
			}
		}
		return false
	}
	t.settle()
	return false
}

// moveOn is called when too few members have granted a place: others hold the rest.
func (t *ticket) moveOn(counting []*link) (rest bool) {
	s := t.s
	if t.req.NoWait {
		t.decline()
		return false
	}
	line := s.links[t.line]
	for _, l := range counting {
		if p := &t.places[l.i]; byLife(l, line) <= 0 || p.state != refused || p.mismatch {
			continue
		}
		t.leaveBehind(l)
		t.line, t.answered = l.i, false
		t.join(l.i, false)
		return false
	}
	if t.mismatched() {
		t.end(driver.ErrMismatch, true)
		return false
	}
	t.restart()
	return true
}

// isRefused reports whether so many members refuse the ticket for good that there is no majority without them.
func (t *ticket) isRefused() bool {
	n := t.count(func(p place) bool { return p.err != nil && driver.IsPermanent(p.err) })
	return n > len(t.places)-t.s.d.majority
}

// tooFew is the error of a ticket that too few members count for.
func (t *ticket) tooFew() error {
	err := t.s.tooFew()
	if t.isRefused() {
		err = driver.Permanent(err)
	}
	return err
}

func (t *ticket) mismatched() bool {
	return t.count(func(p place) bool { return p.mismatch }) > 0
}

// decline ends a try that did not get a majority: others hold it, or too few have answered.
func (t *ticket) decline() {
	failed := t.count(func(p place) bool { return p.err != nil })
	switch {
	case t.mismatched():
		t.end(driver.ErrMismatch, true)
	case failed > 0 && len(t.s.counting()) < t.s.d.majority:
		t.end(t.s.tooFew(), true)
	default:
		t.busy()
	}
}

var errTokens = driver.Permanent(errors.New("quorum: the tokens of this queue are used up"))

// settle numbers the grant.
//
// The token of an exclusive grant is the largest that a member gave, and those members that gave a smaller
// one are raised to it. A later grant has a member in common with this one, so it gets a larger token, unless
// that member has lost its data since: docs/quorum.md says what holds then. The
// token of any other grant is the smallest, so that it is below that of each later exclusive grant without
// further ado.
func (t *ticket) settle() {
	s := t.s
	var most, least uint64
	for _, p := range t.places {
		if p.state == granted {
			most = max(most, p.token)
			if least == 0 || p.token < least {
				least = p.token
			}
		}
	}
	if most >= driver.MaxToken {
		t.end(errTokens, true)
		return
	}
	token := least
	if t.exclusive() {
		token = most
	}
	ready := 0
	for i := range t.places {
		p := &t.places[i]
		if p.state != granted {
			continue
		}
		low := t.exclusive() && p.floor < token
		late := t.req.Hold > 0 && t.stood && !p.fixed // it was granted while others were waited for
		if low && !p.raising {
			t.raise(i, token)
		}
		if late && !p.fixing {
			t.fix(i, t.req.Hold)
		}
		if !low && !late && p.verified {
			ready++
		}
	}
	if ready < s.d.majority {
		return
	}
	t.state, t.token = held, token
	for _, p := range t.places {
		t.inherited = t.inherited || p.state == granted && p.inherited
	}
	t.tell()
}
