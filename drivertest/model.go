package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// Random steps of a few sessions on one queue, each compared with the rule.
var _ = rules.Add(rule{Name: "RandomSteps", Says: []string{
	theRule,
	"Release, cancellation, expiry and eviction are one verb: leave the queue.",
	firstCome,
	tokensGrow,
	heldBeyond,
	neverFits,
}}, func(t *trial) {
	drivers := []driver.Driver{t.driver(), t.driver()}
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		t.Allow(0)
		m := &machine{
			t: r, ctx: t.Ctx, drivers: drivers,
			queue:    fmt.Sprintf("run %d", run),
			fixes:    t.fixes(),
			capacity: rapid.Int64Range(1, 6).Draw(r, "capacity"),
		}
		for i := range m.sessions {
			m.open(i)
		}
		steps := map[string]func(*rapid.T){
			"":               m.compare,
			"join":           m.join,
			"join again":     m.joinAgain,
			"join when gone": m.joinGone,
			"leave":          m.leave,
			"leave again":    m.leaveGone,
			"shrink":         m.shrink,
			"keep":           m.keep,
			"ask":            m.ask,
			"renew":          m.renew,
			"close session":  m.close,
			"mismatch":       m.mismatch,
		}
		if _, cannot := t.Unsupported["Resize"]; !cannot {
			steps["resize"] = m.resize
		}
		r.Repeat(steps)
		for i := range m.sessions {
			m.ok(m.sessions[i].Close(m.ctx), "Close")
		}
		if m.resized {
			m.ok(drivers[0].Resize(m.ctx, m.queue, 0), "Resize to 0")
		}
	})
})

// machine is the rule, beside the sessions that are to keep it.
type machine struct {
	t        *rapid.T
	ctx      context.Context
	drivers  []driver.Driver
	sessions [3]driver.Session

	queue    string
	fixes    bool
	capacity int64
	resized  bool     // the capacity is kept
	tickets  []*place // in the order of Join
	gone     []*place // of sessions that are open
	token    uint64   // of the last exclusive grant
}

type place struct {
	driver.Request
	session int
	held    bool
	token   uint64
	fixed   bool
	evicted bool
	told    bool // its session has returned the grant
}

func (p *place) ticket() driver.Ticket { return driver.Ticket{ID: p.ID, Queue: p.Queue} }

func (m *machine) open(i int) {
	s, err := m.drivers[i%len(m.drivers)].Open(m.ctx, driver.SessionOptions{TTL: 10 * limit})
	m.ok(err, "Open")
	m.sessions[i] = s
}

func (m *machine) failIf(so bool, format string, args ...any) {
	if so {
		m.t.Fatalf(format, args...)
	}
}

func (m *machine) ok(err error, what string) { m.failIf(err != nil, "%s: %v", what, err) }

func (m *machine) is(err, want error, what string) {
	m.failIf(!errors.Is(err, want), "%s: %v; it must be %v", what, err, want)
}

// fits reports whether the last of the places is held, by the rule.
func (m *machine) fits(places []*place) bool {
	var sum int64
	for _, p := range places {
		sum += p.Units
	}
	return sum <= m.capacity
}

// some draws one of the tickets, and someGone one that has left.
func (m *machine) some(t *rapid.T) *place { return draw(t, m.tickets, "place") }

func (m *machine) someGone(t *rapid.T) *place { return draw(t, m.gone, "gone") }

func draw(t *rapid.T, all []*place, what string) *place {
	if len(all) == 0 {
		t.Skip("there is none")
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, what)]
}

func (m *machine) remove(p *place) {
	m.tickets = slices.DeleteFunc(m.tickets, func(q *place) bool { return q == p })
	m.gone = append(m.gone, p)
}

// compare reads the queue and grants by the rule.
func (m *machine) compare(t *rapid.T) {
	q, err := m.drivers[1].Follow(m.ctx, m.queue, "")
	m.ok(err, "Follow")
	if known := m.resized || len(m.tickets) > 0; q.Resized != m.resized || known && q.Capacity != m.capacity {
		t.Fatalf("the capacity is %d, kept %v, and the queue is %+v", m.capacity, m.resized, q)
	}
	m.failIf(len(q.Members) != len(m.tickets), "%d tickets stand, and the queue has %+v", len(m.tickets), q.Members)
	for i, p := range m.tickets {
		got := q.Members[i]
		held := p.held || m.fits(m.tickets[:i+1]) // who holds stays, also beyond a smaller capacity
		if got.ID != p.ID || got.Units != p.Units || got.Held != held || got.Held != (got.Token != 0) || got.Fixed && !p.fixed {
			t.Fatalf("place %d of capacity %d is %+v; by the rule it is %+v, held %v", i, m.capacity, got, *p, held)
		}
		switch {
		case p.held && got.Token != p.token:
			t.Fatalf("the token of place %d became %d after %d", i, got.Token, p.token)
		case held && !p.held && p.Units == m.capacity:
			if got.Token <= m.token {
				t.Fatalf("the exclusive grant after that with token %d has token %d", m.token, got.Token)
			}
			m.token = got.Token
		}
		p.held, p.token = held, got.Token
	}
}

func (m *machine) join(t *rapid.T) {
	i := rapid.IntRange(0, len(m.sessions)-1).Draw(t, "session")
	p := &place{session: i, Request: driver.Request{
		ID: newID(), Queue: m.queue, Kind: driver.Semaphore, Capacity: m.capacity,
		Units:  rapid.Int64Range(1, m.capacity).Draw(t, "units"),
		NoWait: rapid.IntRange(0, 3).Draw(t, "no wait") == 0,
		Retry:  rapid.Bool().Draw(t, "retry"),
	}}
	if m.fixes && rapid.IntRange(0, 5).Draw(t, "hold") == 0 {
		p.Hold, p.fixed = 10*limit, true
	}
	held := m.fits(append(slices.Clone(m.tickets), p))
	got, err := m.sessions[i].Join(m.ctx, p.Request)
	if p.NoWait && !held {
		m.is(err, driver.ErrBusy, "Join with NoWait")
		return
	}
	m.failIf(err != nil || got.Held != held, "Join: %+v, %v; by the rule held is %v", got, err, held)
	p.told = got.Held
	m.tickets = append(m.tickets, p)
}

func (m *machine) joinAgain(t *rapid.T) {
	p := m.some(t)
	r := again(p.Request)
	if rapid.IntRange(0, 3).Draw(t, "no wait") == 0 {
		r.NoWait = true
	}
	got, err := m.sessions[p.session].Join(m.ctx, r)
	if r.NoWait && !p.held {
		m.is(err, driver.ErrBusy, "Join with NoWait of a ticket that waits")
		m.tickets = slices.DeleteFunc(m.tickets, func(q *place) bool { return q == p })
		return // it has left, and may be refused or served when it comes again
	}
	m.failIf(err != nil || got.Held != p.held || got.Token != p.token, "Join, repeated: %+v, %v, not %+v", got, err, *p)
	p.told = p.told || got.Held
}

func (m *machine) joinGone(t *rapid.T) {
	p := m.someGone(t)
	m.is(suite.Of(m.sessions[p.session].Join(m.ctx, again(p.Request))), driver.ErrGone, "Join of a ticket that has left")
}

func (m *machine) leave(t *rapid.T) {
	p := m.some(t)
	s := m.sessions[p.session]
	if p.held && p.fixed && rapid.Bool().Draw(t, "foreign") {
		s = m.sessions[(p.session+1)%len(m.sessions)]
	}
	m.ok(s.Leave(m.ctx, p.ticket(), rapid.Bool().Draw(t, "clean")), "Leave")
	m.remove(p)
}

func (m *machine) leaveGone(t *rapid.T) {
	p := m.someGone(t)
	s := m.sessions[p.session]
	m.is(s.Leave(m.ctx, p.ticket(), true), driver.ErrGone, "Leave of a ticket that has left")
	m.is(s.Shrink(m.ctx, p.ticket(), 1), driver.ErrGone, "Shrink of a ticket that has left")
	m.is(s.Keep(m.ctx, p.ticket(), limit), driver.ErrGone, "Keep of a ticket that has left")
}

func (m *machine) shrink(t *rapid.T) {
	p := m.some(t)
	units := rapid.Int64Range(1, m.capacity).Draw(t, "units")
	m.ok(m.sessions[p.session].Shrink(m.ctx, p.ticket(), units), "Shrink")
	p.Units = min(p.Units, units)
}

func (m *machine) keep(t *rapid.T) {
	p := m.some(t)
	if !p.held || p.evicted || !m.fixes {
		t.Skip("it waits, or cannot be kept any longer")
	}
	s := m.sessions[p.session]
	if p.fixed && rapid.Bool().Draw(t, "foreign") {
		s = m.sessions[(p.session+1)%len(m.sessions)]
	}
	m.ok(s.Keep(m.ctx, p.ticket(), 10*limit), "Keep")
	p.fixed = true
	p.told = p.told || s == m.sessions[p.session]
}

func (m *machine) ask(t *rapid.T) {
	p := m.some(t)
	what := rapid.SampledFrom([]driver.Demand{driver.Revoke, driver.Evict, driver.Force}).Draw(t, "what")
	d := m.drivers[rapid.IntRange(0, 1).Draw(t, "driver")]
	m.ok(d.Ask(m.ctx, m.queue, p.ID, what), "Ask")
	switch {
	case what == driver.Force, what == driver.Evict && !p.held:
		m.remove(p)
	case what == driver.Evict:
		p.evicted = true
	}
}

func (m *machine) resize(t *rapid.T) {
	capacity := rapid.Int64Range(0, 6).Draw(t, "to")
	d := m.drivers[rapid.IntRange(0, 1).Draw(t, "driver")]
	m.ok(d.Resize(m.ctx, m.queue, capacity), "Resize")
	if m.resized = capacity > 0; !m.resized {
		return
	}
	m.capacity = capacity
	for _, p := range slices.Clone(m.tickets) {
		if !p.held && p.Units > capacity {
			m.remove(p)
		}
	}
}

func (m *machine) renew(t *rapid.T) {
	i := rapid.IntRange(0, len(m.sessions)-1).Draw(t, "session")
	var known []driver.Ticket
	want, untold := map[string][]driver.State{}, map[string]bool{}
	for _, p := range m.tickets {
		if p.session != i {
			continue
		}
		switch named := rapid.Bool().Draw(t, "named"); {
		case named && p.evicted:
			want[p.ID] = []driver.State{driver.Evicted}
			known = append(known, p.ticket())
		case named:
			want[p.ID] = []driver.State{driver.Kept}
			known = append(known, p.ticket())
		case p.held && p.fixed: // needs nobody, once its session knows of the grant
			untold[p.ID] = !p.told
		case p.evicted:
			want[p.ID] = []driver.State{driver.Stray, driver.Evicted}
		default:
			want[p.ID] = []driver.State{driver.Stray}
		}
	}
	for _, p := range m.gone {
		if p.session == i && rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
			known = append(known, p.ticket())
			want[p.ID] = []driver.State{driver.Gone}
		}
	}
	answer, err := m.sessions[i].Renew(m.ctx, known)
	answer = slices.DeleteFunc(answer, func(r driver.Renewed) bool { return untold[r.ID] && r.State == driver.Stray })
	m.failIf(err != nil || len(answer) != len(want), "Renew of %+v: %+v, %v; it must be %v", known, answer, err, want)
	for _, r := range answer {
		m.failIf(!slices.Contains(want[r.ID], r.State), "Renew says %+v; it must be one of %v", r, want[r.ID])
	}
}

func (m *machine) close(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "really") != 0 {
		t.Skip("not so often")
	}
	i := rapid.IntRange(0, len(m.sessions)-1).Draw(t, "session")
	m.ok(m.sessions[i].Close(m.ctx), "Close")
	m.open(i)
	for _, p := range slices.Clone(m.tickets) {
		if p.session != i {
			continue
		}
		if p.held && p.fixed { // it has stayed, and any session may leave it
			err := m.sessions[i].Leave(m.ctx, p.ticket(), true)
			if err != nil && (p.told || !errors.Is(err, driver.ErrGone)) {
				t.Fatalf("Leave of a ticket with a fixed end, of a closed session: %v", err)
			}
		}
		m.remove(p)
	}
	// A Join can come late to the session that sent it, and that one is over.
	m.gone = slices.DeleteFunc(m.gone, func(p *place) bool { return p.session == i })
}

func (m *machine) mismatch(t *rapid.T) {
	if len(m.tickets) == 0 && !m.resized {
		t.Skip("an empty queue has no kind")
	}
	r := permits(m.queue, 1, m.capacity+1)
	if rapid.Bool().Draw(t, "kind") {
		r.Kind, r.Capacity = driver.Barrier, driver.RWCapacity
	}
	m.is(suite.Of(m.sessions[0].Join(m.ctx, r)), driver.ErrMismatch, "Join of another kind or capacity")
}
