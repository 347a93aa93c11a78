// Package collector makes metrics of the events of clients: who waits and who holds, since when, and what each acquire
// and each lease has come to. Packages metrics and otelinterlock show them.
package collector

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
)

// MaxNames is how many names are told apart. All that come later are one, Others.
const (
	MaxNames = 1000
	Others   = "(others)"
)

// Buckets are the bounds of histograms, in seconds.
var Buckets = []float64{.0005, .001, .005, .01, .05, .1, .5, 1, 5, 15, 60, 300, 1800, 7200}

// Labels are what metrics are told apart by.
type Labels struct {
	Backend string
	Kind    string // of the lock
	Name    string // of the lock; empty unless names are shown
}

// An event has changed one of these.
type What uint8

const (
	Nothing What = iota
	Acquire      // an acquire has ended
	Hold         // a lease has ended
	Overrun      // work begins to go on after the loss of its lease
	Renewal      // a client has renewed its leases
)

// Outcomes of an acquire that succeeds, and of a lease. See reason for the others.
const (
	Acquired = string(interlock.EventAcquired)
	Handed   = string(interlock.EventHandedOver)
	Released = string(interlock.EventReleased)
	Lost     = string(interlock.EventLost)
)

// Change is what one event has changed.
type Change struct {
	What What
	Labels
	Outcome   string
	Waits     time.Time     // since when the acquire has waited; zero if it has not
	Took      time.Duration // -1 if that is not known
	Exchanges uint64        // of a renewal
	First     bool          // these labels are new
}

// Counts calls add for each metric that changes: with the seconds of a histogram, or with what a counter grows by.
func (c Change) Counts(add func(f *Metric, outcome string, by float64)) {
	if c.First { // else the first one does not count as an increase
		add(losses, "", 0)
		add(overruns, "", 0)
		add(failures, "busy", 0)
	}
	switch c.What {
	case Acquire:
		add(wait, c.Outcome, c.Took.Seconds())
		if c.Failed() {
			add(failures, c.Outcome, 1)
		}
	case Hold:
		if c.Took >= 0 {
			add(use, c.Outcome, c.Took.Seconds())
		}
		if c.Outcome == Lost {
			add(losses, "", 1)
		}
	case Overrun:
		add(overruns, "", 1)
	case Renewal:
		add(renewal, "", c.Took.Seconds())
		add(exchanges, "", float64(c.Exchanges))
	}
}

// Failed reports whether an acquire came to nothing.
func (c Change) Failed() bool {
	return c.What == Acquire && c.Outcome != Acquired && c.Outcome != Handed
}

// Collector counts. Its methods may be called concurrently.
type Collector struct {
	names   func(string) string
	backend string

	mu      sync.Mutex
	waiting map[uint64]begun // by the ID of the acquire
	holding map[uint64]begun
	late    map[uint64]bool // leases whose work overruns
	shown   map[string]bool // names
	known   map[Labels]bool
}

type begun struct {
	Labels
	since time.Time
}

// New makes a collector. Names makes what is shown of the name of a lock; nil shows none. Backend is for clients that
// do not know theirs.
func New(names func(string) string, backend string) *Collector {
	return &Collector{
		names: names, backend: backend,
		waiting: map[uint64]begun{}, holding: map[uint64]begun{}, late: map[uint64]bool{},
		shown: map[string]bool{}, known: map[Labels]bool{},
	}
}

// Add counts an event.
func (t *Collector) Add(ctx context.Context, e interlock.Event) (c Change) {
	c = Change{Labels: Labels{Backend: cmp.Or(e.Backend, t.backend), Kind: e.LockKind}, Took: e.Took, Exchanges: e.Exchanges}
	name := t.name(e)
	t.mu.Lock()
	defer t.mu.Unlock()
	c.Name = t.bounded(name)
	switch e.Kind {
	case interlock.EventWaiting:
		t.waiting[e.ID] = begun{c.Labels, e.Time}
	case interlock.EventAcquired, interlock.EventHandedOver, interlock.EventGaveUp:
		c.What, c.Waits, c.Outcome = Acquire, t.waiting[e.ID].since, string(e.Kind)
		delete(t.waiting, e.ID)
		if e.Kind == interlock.EventGaveUp {
			c.Outcome = reason(ctx, e.Err, !c.Waits.IsZero())
		} else {
			t.holding[e.ID] = begun{c.Labels, e.Time}
		}
	case interlock.EventReleased, interlock.EventLost:
		held, known := t.holding[e.ID]
		delete(t.holding, e.ID)
		c.What, c.Outcome = Hold, string(e.Kind)
		switch {
		case e.Kind == interlock.EventReleased:
		case known:
			c.Took = e.Time.Sub(held.since)
		default: // adopted
			c.Took = -1
		}
	case interlock.EventOverrun:
		if e.Err == nil {
			delete(t.late, e.ID)
		} else if !t.late[e.ID] {
			t.late[e.ID] = true
			c.What = Overrun
		}
	case interlock.EventRenewed:
		c.What = Renewal
		return c
	}
	if e.ID != 0 && !t.known[c.Labels] {
		t.known[c.Labels], c.First = true, true
	}
	return c
}

// name is what is shown of a lock's name. A function of the user that panics does no harm.
func (t *Collector) name(e interlock.Event) (name string) {
	if t.names == nil || e.ID == 0 {
		return ""
	}
	defer func() {
		if recover() != nil {
			name = "(panic)"
		}
	}()
	return t.names(e.Name)
}

// bounded is called with t.mu held.
func (t *Collector) bounded(name string) string {
	switch {
	case name == "" || t.shown[name]:
		return name
	case len(t.shown) >= MaxNames:
		return Others
	}
	t.shown[name] = true
	return name
}

// reason is why an acquire came to nothing.
func reason(ctx context.Context, err error, waited bool) string {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(interlock.ErrUnavailable):
		return "unavailable"
	case is(interlock.ErrDeadlock):
		return "deadlock"
	case is(interlock.ErrLost):
		return Lost
	case is(interlock.ErrClosed):
		return "closed"
	case is(interlock.ErrInvalid), is(interlock.ErrMismatch):
		return "refused"
	case is(interlock.ErrBusy) && !waited:
		return "busy"
	case is(interlock.ErrBusy), is(context.DeadlineExceeded):
		return "timeout"
	case is(context.Canceled), errors.Is(ctx.Err(), context.Canceled):
		return "canceled"
	case ctx.Err() != nil:
		return "timeout"
	}
	return "failed"
}

// Gauge is how things are with locks of the same labels.
type Gauge struct {
	Labels
	Waiters, Holders           int
	OldestWaiter, OldestHolder time.Duration // 0 if there is none
}

// Gauges has one for all labels that there were, in no order.
func (t *Collector) Gauges() []Gauge {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	at := make(map[Labels]*Gauge, len(t.known))
	all := make([]Gauge, 0, len(t.known))
	for l := range t.known {
		all = append(all, Gauge{Labels: l})
		at[l] = &all[len(all)-1]
	}
	for _, b := range t.waiting {
		g := at[b.Labels]
		g.Waiters++
		g.OldestWaiter = max(g.OldestWaiter, now.Sub(b.since))
	}
	for _, b := range t.holding {
		g := at[b.Labels]
		g.Holders++
		g.OldestHolder = max(g.OldestHolder, now.Sub(b.since))
	}
	return all
}
