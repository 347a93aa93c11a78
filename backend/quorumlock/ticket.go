package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// ticket is what the caller has joined. While it is pursued a goroutine tries to get a majority of
// places. All but the first lines is guarded by session.mu.
type ticket struct {
	s    *session
	req  driver.Request // as it was joined
	note []byte         // of its places

	state     ticketState
	err       error // why it has left
	places    []place
	units     int64
	hold      time.Duration  // it has a fixed end, so long after the grant; 0: it has none
	named     driver.Instant // when the caller last named it
	answered  bool           // it waits in line: Join may return
	stood     bool           // it has waited in line
	evicted   bool
	foreign   bool // it was joined by another session
	line      int  // the member where it waits or waited; -1: none yet
	grace     driver.Instant
	began     driver.Instant // of this attempt
	token     uint64
	inherited bool
	leaving   int      // places that are being given back
	lostIDs   []string // of places that do not stand any more
	flying    int      // places that are being joined
	parting   bool     // Leave has begun
	gone      int      // places that have left since

	wake chan struct{}
	news chan struct{} // closed when something changes that a call may wait for
	ctx  context.Context
	stop context.CancelFunc
}

type ticketState uint8

const (
	pursued ticketState = iota
	held
	left
)

// place is a ticket at one member.
type place struct {
	state     placeState
	id        string
	at        *driver.Opened
	life      string
	verified  bool // it was joined in the life of the link
	token     uint64
	floor     uint64 // later tokens there are larger
	raising   bool
	inherited bool
	units     int64
	hold      time.Duration // it has a fixed end, so long after the proof; 0: it has none
	fixing    bool
	fixed     bool // its fixed time has begun anew
	proof     driver.Instant
	end       driver.Instant // of a place of another session, at the earliest
	renewed   uint64         // the round of Renew
	err       error          // why a try has failed in this life
	mismatch  bool

	challenged bool // of one that is refused: see challenge
	overruled  bool
}

type placeState uint8

const (
	untried placeState = iota
	joining
	waiting
	granted
	refused
)

func (s *session) newTicket(r driver.Request) *ticket {
	t := &ticket{
		s: s, req: r, places: make([]place, len(s.links)), units: r.Units, hold: r.Hold,
		named: s.d.now(), line: -1,
		note: append([]byte(r.ID+" "), r.Note...),
		wake: make(chan struct{}, 1), news: make(chan struct{}),
	}
	t.ctx, t.stop = context.WithCancel(s.ctx)
	return t
}

func (t *ticket) exclusive() bool { return t.req.Units == t.req.Capacity }

func (t *ticket) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// tell wakes the calls that wait for the ticket.
func (t *ticket) tell() {
	close(t.news)
	t.news = make(chan struct{})
}

func (t *ticket) tellIfLeft() {
	if t.state == left {
		t.tell()
	}
}

// quiet reports whether nothing of a ticket that has left is under way.
func (t *ticket) quiet() bool { return t.leaving == 0 && t.flying == 0 }

// report is the ticket as the caller sees it.
func (t *ticket) report() driver.Ticket {
	tk := driver.Ticket{ID: t.req.ID, Queue: t.req.Queue}
	if t.state == held {
		tk.Held, tk.Token, tk.Inherited, tk.Proof = true, t.token, t.inherited && t.req.ReportDeath, t.proof()
	}
	return tk
}

// counts reports whether a place is part of a majority.
func (p place) counts() bool { return p.state == granted && p.verified }

// proof is the time from which a majority guarantees the ticket.
func (t *ticket) proof() driver.Instant {
	var all []driver.Instant
	for _, p := range t.places {
		if p.counts() {
			all = append(all, p.proof.Add(min(0, t.s.span(p.hold)-t.s.span(t.hold))))
		}
	}
	return t.s.d.ofMajority(all)
}

// span is how long after its proof a place stands, or a ticket is held. A place that has missed a Keep has
// another span than its ticket. s.mu is held.
func (s *session) span(hold time.Duration) time.Duration {
	if hold > 0 {
		return hold
	}
	return s.granted
}

// ofMajority is the instant that a majority of all members reach; 0 if there are too few.
func (d *Driver) ofMajority(all []driver.Instant) driver.Instant {
	if len(all) < d.majority {
		return 0
	}
	slices.SortFunc(all, func(a, b driver.Instant) int { return cmp.Compare(b, a) })
	return all[d.majority-1]
}

// count is how many places are as is says.
func (t *ticket) count(is func(place) bool) (n int) {
	for _, p := range t.places {
		if is(p) {
			n++
		}
	}
	return n
}

// standing counts the places that still hold.
func (t *ticket) standing(now driver.Instant) int {
	return t.count(func(p place) bool { return p.counts() && now < max(p.end, p.proof.Add(t.s.span(p.hold))) })
}

// over ends the ticket without giving anything back. s.mu is held.
func (t *ticket) over(err error) {
	if t.state == left {
		return
	}
	t.state, t.err = left, err
	for _, id := range t.lostIDs {
		delete(t.s.placed, id)
	}
	t.stop()
	t.tell()
}

// end gives everything back. s.mu is held. A ticket that was held leaves cleanly if the caller says so.
func (t *ticket) end(err error, clean bool) {
	if t.state == left {
		return
	}
	was := t.state
	t.over(err)
	for i := range t.places {
		p := &t.places[i]
		t.giveBack(i, clean && (was == held || !p.inherited))
	}
	s := t.s
	delete(s.tickets, t.req.ID)
}

// giveBack leaves a place. s.mu is held.
func (t *ticket) giveBack(i int, clean bool) {
	p := t.places[i]
	t.places[i] = place{err: p.err, life: p.life, mismatch: p.mismatch}
	if p.state == joining || p.id == "" {
		return // whoever joins will see that
	}
	t.giveBackAs(i, p, clean)
}

func (t *ticket) giveBackAs(i int, p place, clean bool) {
	s, l := t.s, t.s.links[i]
	delete(s.placed, p.id)
	if l.at != p.at && p.hold == 0 {
		return // it has ended with the session at the member
	}
	o := debt{
		ticket: driver.Ticket{ID: p.id, Queue: t.req.Queue},
		clean:  clean, end: s.d.now().Add(max(s.granted, p.hold)),
	}
	if l.at == nil || l.muted {
		l.owes(o)
		return
	}
	t.leaving++
	at := l.at
	s.d.background(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.patience)
		err := at.Leave(ctx, o.ticket, clean)
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil, errors.Is(err, driver.ErrGone):
		case errors.Is(err, driver.ErrSession):
			l.over(at)
			if p.hold > 0 { // the place outlives the session
				l.owes(o)
			}
		case s.ctx.Err() == nil:
			l.silent(at, err)
			l.owes(o)
		}
		t.leaving--
		t.tell()
		t.poke()
	})
}

// join tries to get a place. s.mu is held.
func (t *ticket) join(i int, nowait bool) {
	s, l := t.s, t.s.links[i]
	id, at, d := newID(), l.at, l.d
	r := t.req
	r.ID, r.NoWait, r.Retry, r.Note, r.Units, r.Hold = id, nowait, false, t.note, t.units, t.hold
	r.ReportDeath = true // see disputed
	t.places[i] = place{state: joining, id: id, at: at, life: l.life, units: r.Units, hold: r.Hold}
	s.placed[id] = t
	life := l.life
	t.flying++
	s.d.background(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.patience)
		defer cancel()
		tk, err := at.Join(ctx, r)
		if t.joined(i, id, tk, err) {
			t.verify(i, id, life, d)
		}
	})
}

// joined takes note of the answer. It reports whether there is a place.
func (t *ticket) joined(i int, id string, tk driver.Ticket, err error) bool {
	s, l := t.s, t.s.links[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	defer t.poke()
	defer t.tellIfLeft()
	t.flying--
	p := &t.places[i]
	mine := p.id == id
	if !mine || t.state == left {
		got := place{id: id, at: p.at, inherited: tk.Inherited, hold: t.hold}
		if mine {
			*p = place{}
		} else {
			got.at = l.at
		}
		delete(s.placed, id)
		if err == nil || !driver.IsPermanent(err) {
			t.giveBackAs(i, got, err == nil && !tk.Inherited)
		}
		return false
	}
	at := p.at
	switch {
	case err == nil && l.at != at && (p.hold == 0 || !tk.Held): // the session has ended since, and the place with it
		delete(s.placed, id)
		*p = place{}
		return false
	case err == nil:
	case errors.Is(err, driver.ErrBusy), errors.Is(err, driver.ErrMismatch), errors.Is(err, driver.ErrGone):
		delete(s.placed, id)
		*p = place{state: refused, mismatch: errors.Is(err, driver.ErrMismatch)}
		return false
	case errors.Is(err, driver.ErrSession):
		delete(s.placed, id)
		*p = place{state: untried, err: err, life: p.life}
		l.over(at)
		return false
	default:
		got := *p
		*p = place{state: refused, err: err, life: p.life}
		if s.ctx.Err() != nil {
			return false
		}
		l.silent(at, err)
		if driver.IsPermanent(err) {
			delete(s.placed, id)
			return false
		}
		t.giveBackAs(i, got, false) // it may have been granted after a death
		return false
	}
	p.state = waiting
	if tk.Held {
		t.granted(i, tk)
		return true
	}
	s.d.background(func() { t.await(i, id, at, tk) })
	return true
}

// granted takes note of a grant. s.mu is held.
func (t *ticket) granted(i int, tk driver.Ticket) {
	p := &t.places[i]
	p.state, p.token, p.inherited = granted, tk.Token, tk.Inherited
	p.floor = tk.Token
	p.proof = max(p.proof, t.s.links[i].proof(tk.Proof, p.at.TTL, p.hold > 0))
	delete(t.s.links[i].objections, t.req.Queue)
	if t.line == i { // those who refused it before may not do so now
		t.answered = false
		for j := range t.places {
			if q := &t.places[j]; q.state == refused {
				*q = place{}
			}
		}
	}
}

// proof is a proof of a member in the clock and for the TTL of the quorum. s.mu is held.
func (l *link) proof(p driver.Instant, ttl time.Duration, fixed bool) driver.Instant {
	now := l.s.d.now() // before the other clock is read
	p = now.Add(-max(0, l.d.Now().Sub(p)))
	if short := l.s.granted - ttl; short > 0 && !fixed {
		p = p.Add(-short)
	}
	return p
}

// await waits until a place is granted.
func (t *ticket) await(i int, id string, at *driver.Opened, tk driver.Ticket) {
	s, l := t.s, t.s.links[i]
	var b backoff.Backoff
	for {
		got, err := at.Await(t.ctx, tk)
		s.mu.Lock()
		p := &t.places[i]
		switch {
		case t.state == left || p.id != id:
			s.mu.Unlock()
			return
		case err == nil:
			t.granted(i, got)
		case errors.Is(err, driver.ErrSession):
			l.over(at)
		case errors.Is(err, driver.ErrGone):
			s.mu.Unlock()
			t.taken(i, id)
			return
		default:
			s.mu.Unlock()
			if b.Sleep(t.ctx) != nil {
				return
			}
			continue
		}
		t.poke()
		s.mu.Unlock()
		return
	}
}

// taken is called when the place at the line does not stand any more: the ticket has been evicted or has run
// out, unless the member has lost its data.
func (t *ticket) taken(i int, id string) {
	s, l := t.s, t.s.links[i]
	s.mu.Lock()
	p, d := t.places[i], l.d
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	now, err := lifeOf(ctx, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.places[i].id != id || t.state != pursued {
		return
	}
	t.lost(i)
	switch {
	case err != nil:
		if s.ctx.Err() == nil {
			l.silent(p.at, err)
		}
	case now == p.life:
		s.left.Add(t.req.ID)
		t.end(driver.ErrGone, true)
	default:
		l.forgotten(p.at, p.life)
	}
}

// lost notes that a place does not stand any more. s.mu is held.
func (t *ticket) lost(i int) {
	t.lostIDs = append(t.lostIDs, t.places[i].id) // its signal may be under way
	t.places[i] = place{}
	t.poke()
}

// verify makes a place count if the member is still in the life in which it is known to be sound.
func (t *ticket) verify(i int, id, life string, d driver.Driver) {
	s, l := t.s, t.s.links[i]
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	now, err := lifeOf(ctx, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &t.places[i]
	if t.state == left || p.id != id {
		return
	}
	switch {
	case err != nil:
		t.doubt(i, err)
	case now != life:
		l.forgotten(p.at, life)
		t.giveBack(i, true)
	case t.state == held && t.standing(s.d.now()) < s.d.majority:
		t.giveBack(i, !p.inherited) // see joinAlso
	default:
		p.verified = true
	}
	t.poke()
}

// doubt gives back a place at a member that has not answered. s.mu is held.
func (t *ticket) doubt(i int, err error) {
	s, p := t.s, t.places[i]
	if s.ctx.Err() == nil {
		s.links[i].silent(p.at, err)
	}
	t.giveBack(i, !p.inherited)
	t.places[i] = place{state: refused, err: err, life: p.life}
}

// raise makes later tokens of a member larger than the ticket's. s.mu is held.
func (t *ticket) raise(i int, floor uint64) {
	t.places[i].raising = true
	d := t.s.links[i].d
	t.call(i, func(ctx context.Context, _ place) error { return d.Raise(ctx, t.req.Queue, floor) }, func(p *place, err error) {
		p.raising = false
		if err == nil {
			p.floor = max(p.floor, floor)
		} else if t.s.ctx.Err() == nil {
			t.doubt(i, fmt.Errorf("raise the tokens: %w", err))
		}
	})
}

// call makes a call for a place in the background. If the place is still the same by then, done has the error, with
// s.mu held.
func (t *ticket) call(i int, make func(ctx context.Context, p place) error, done func(p *place, err error)) {
	s, p := t.s, t.places[i]
	s.d.background(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.patience)
		defer cancel()
		err := make(ctx, p)
		s.mu.Lock()
		defer s.mu.Unlock()
		if now := &t.places[i]; now.id == p.id {
			done(now, err)
			t.poke()
		}
	})
}

// fix has the fixed time of a place begin anew. s.mu is held.
func (t *ticket) fix(i int, hold time.Duration) {
	s, l := t.s, t.s.links[i]
	t.places[i].fixing = true
	var sent driver.Instant
	t.call(i, func(ctx context.Context, p place) error {
		sent = s.d.now()
		return p.at.Keep(ctx, driver.Ticket{ID: p.id, Queue: t.req.Queue}, hold)
	}, func(p *place, err error) {
		p.fixing = false
		switch {
		case err == nil:
			p.proof, p.hold, p.fixed = max(p.proof, sent), hold, true
		case errors.Is(err, driver.ErrGone):
			t.lost(i)
		case errors.Is(err, driver.ErrSession):
			l.over(p.at)
			t.giveBack(i, !p.inherited)
		case s.ctx.Err() == nil:
			l.silent(p.at, err)
		}
	})
}
