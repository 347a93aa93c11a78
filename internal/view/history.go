package view

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
)

// How a grant ended, as far as it can be seen from outside.
const (
	Released = "released" // it was gone before its time was over: released, or its session has ended
	Ended    = "ended"    // it was gone when its fixed time was over, as it was meant to be
	Expired  = "expired"  // it was gone when its time was over: its program has died, or was cut off
	Evicted  = "evicted"  // an operator of this process has taken it away
	Overran  = "overran"  // it was lost, and its work goes on
)

// Grant is a lock in the hands of one holder, as samples have shown it. Both times are late by up to the time between
// two samples.
type Grant struct {
	Name  string    `json:"name"`
	ID    string    `json:"id"`
	Owner string    `json:"owner"`
	Note  string    `json:"note"`
	Units int64     `json:"units"`
	Token uint64    `json:"token,string,omitzero"`
	From  time.Time `json:"from"`        // the first sample that has it as a holder
	To    time.Time `json:"to,omitzero"` // the first sample without it; zero while it is held
	End   string    `json:"end,omitempty"`
	Begun bool      `json:"begun"` // From is its beginning; else it was held already when the history began

	until time.Time
	fixed bool
}

// Episode is one waiter that waits for one holder, in samples that follow each other.
type Episode struct {
	Name    string           `json:"name"`
	Waiter  interlock.Member `json:"waiter"`
	Blocker interlock.Member `json:"blocker"` // of several holders, the one that holds for the longest
	From    time.Time        `json:"from"`
	To      time.Time        `json:"to"` // of the last sample that has both
	Going   bool             `json:"going"`
	Begun   bool             `json:"begun"` // From is its beginning; else it was there already when the history began
}

// Waited is how long the episode lasts, or has lasted.
func (e Episode) Waited() time.Duration { return e.To.Sub(e.From) }

// Bounds of a history.
const (
	mostGrants   = 50     // ended, of one lock
	mostNames    = 5_000  // with ended grants
	mostPairs    = 20_000 // that go on
	mostEpisodes = 500    // ended: the longest are kept
)

// History is what samples that follow each other tell apart. It is bounded: of many locks, it forgets the grants of
// those that have not changed for longest, first of free ones.
type History struct {
	mu      sync.Mutex
	since   time.Time
	locks   map[string]*past
	going   map[pair]*Episode
	ended   []Episode // longest first
	evicted map[string]bool
}

// past is the grants of one lock.
type past struct {
	held    map[string]*Grant // by ID and token
	ended   []Grant           // latest last
	changed time.Time
}

type pair struct{ name, waiter, blocker string }

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{locks: map[string]*past{}, going: map[pair]*Episode{}, evicted: map[string]bool{}}
}

// Evicted says that the holder with this ID is taken away, so that the end of its grant has the right name.
func (h *History) Evicted(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.evicted[id] = true
}

// Grants returns the grants of a lock, the latest first.
func (h *History) Grants(name string) []Grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.locks[name]
	if p == nil {
		return nil
	}
	all := slices.Clone(p.ended)
	for _, g := range p.held {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Grant) int { return cmp.Or(b.From.Compare(a.From), cmp.Compare(b.Token, a.Token)) })
	return all
}

// Episodes are the longest waits, at most so many.
func (h *History) Episodes(most int) []Episode {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.ended)
	for _, e := range h.going {
		all = append(all, *e)
	}
	slices.SortFunc(all, longerFirst)
	return all[:min(most, len(all))]
}

func longerFirst(a, b Episode) int {
	return cmp.Or(cmp.Compare(b.Waited(), a.Waited()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Waiter.ID, b.Waiter.ID))
}

// Look adds one lock, as it was seen between two samples.
func (h *History) Look(q interlock.Queue, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.compare([]interlock.Queue{q}, at, func(string) bool { return false })
}

// Since is the time of the first sample.
func (h *History) Since() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since
}

// add takes a sample in. What may be missing from it has not ended.
func (h *History) add(s Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.compare(s.Locks, s.At, func(name string) bool { return s.Err == nil && (!s.More || name < s.Locks[len(s.Locks)-1].Name) })
	h.forget()
}

// compare compares locks with what is known. Whole says which others are not in use.
func (h *History) compare(locks []interlock.Queue, at time.Time, whole func(name string) bool) {
	begun := !h.since.IsZero()
	if !begun {
		h.since = at
	}
	seen, pairs := map[string]bool{}, map[pair]bool{}
	for _, q := range locks {
		seen[q.Name] = true
		h.grants(q, at, begun)
		h.waits(q, at, begun, pairs)
	}
	for name, p := range h.locks {
		if !seen[name] && len(p.held) > 0 && whole(name) {
			h.grants(interlock.Queue{Name: name}, at, true)
		}
	}
	for of, e := range h.going {
		if !pairs[of] && (seen[of.name] || whole(of.name)) {
			h.endEpisode(of, e)
		}
	}
}

func (h *History) grants(q interlock.Queue, at time.Time, begun bool) {
	p := h.locks[q.Name]
	if p == nil {
		if len(q.Holders) == 0 {
			return
		}
		p = &past{held: map[string]*Grant{}}
		h.locks[q.Name] = p
	}
	held := map[string]bool{}
	for _, m := range q.Holders {
		key := m.ID + " " + Token(m)
		held[key] = true
		g := p.held[key]
		if g == nil {
			p.changed = at
			g = &Grant{Name: q.Name, ID: m.ID, Owner: m.Owner, Note: m.Note, Units: m.Units, Token: m.Token, From: at, Begun: begun}
			p.held[key] = g
		}
		g.until, g.fixed = m.Until, m.Fixed
	}
	for _, key := range slices.Sorted(maps.Keys(p.held)) {
		if held[key] {
			continue
		}
		g := p.held[key]
		delete(p.held, key)
		g.To, g.End, p.changed = at, h.end(q, g, at), at
		p.ended = append(p.ended, *g)
		p.ended = p.ended[max(0, len(p.ended)-mostGrants):]
	}
}

// end says how a grant has ended that is not there any more.
func (h *History) end(q interlock.Queue, g *Grant, at time.Time) string {
	for _, o := range q.Overruns {
		if o.Token == g.Token {
			return Overran
		}
	}
	switch {
	case h.evicted[g.ID]:
		delete(h.evicted, g.ID)
		return Evicted
	case !g.until.IsZero() && !at.Before(g.until) && g.fixed:
		return Ended
	case !g.until.IsZero() && !at.Before(g.until):
		return Expired
	}
	return Released
}

func (h *History) waits(q interlock.Queue, at time.Time, begun bool, pairs map[pair]bool) {
	if len(q.Holders) == 0 {
		return
	}
	blocker := q.Holders[0]
	for _, m := range q.Holders {
		if olderFirst(m.Since, blocker.Since) < 0 {
			blocker = m
		}
	}
	for _, m := range q.Waiters {
		of := pair{q.Name, m.ID, blocker.ID}
		e := h.going[of]
		if e == nil {
			if len(h.going) >= mostPairs {
				continue
			}
			e = &Episode{Name: q.Name, Waiter: m, Blocker: blocker, From: at, Going: true, Begun: begun}
			h.going[of] = e
		}
		e.To = at
		pairs[of] = true
	}
}

func (h *History) endEpisode(of pair, e *Episode) {
	delete(h.going, of)
	e.Going = false
	i, _ := slices.BinarySearchFunc(h.ended, *e, longerFirst)
	if i < mostEpisodes {
		h.ended = slices.Insert(h.ended, i, *e)
		h.ended = h.ended[:min(len(h.ended), mostEpisodes)]
	}
}

// forget keeps a history within its bounds.
func (h *History) forget() {
	if len(h.evicted) > mostNames {
		clear(h.evicted)
	}
	if len(h.locks) <= mostNames {
		return
	}
	names := slices.SortedFunc(maps.Keys(h.locks), func(a, b string) int {
		held := func(name string) int { return min(len(h.locks[name].held), 1) }
		return cmp.Or(held(a)-held(b), h.locks[a].changed.Compare(h.locks[b].changed))
	})
	for _, name := range names[:len(names)-mostNames] {
		if len(h.locks[name].held) == 0 || len(h.locks) > 2*MostLocks {
			delete(h.locks, name)
		}
	}
}
