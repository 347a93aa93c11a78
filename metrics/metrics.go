// Package metrics shows what the locks of a program do in the text format of Prometheus:
//
//	locks := metrics.New()
//	c, err := interlock.Open(ctx, "redis://localhost:6379", locks.Option())
//	if err != nil {
//		return err
//	}
//	http.Handle("/metrics", locks)
//
// It needs nothing but the standard library. A program that uses OpenTelemetry takes package otelinterlock, which has the
// same figures with the same names. docs/telemetry.md lists them, and what they cost.
package metrics

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/tally"
)

// Metrics counts what happens to the clients that have its Option. It is an [http.Handler] that writes the figures.
type Metrics struct {
	tally *tally.Tally

	mu         sync.Mutex
	histograms map[series]*histogram
	counters   map[series]uint64
}

// series is one line of a family, or the lines of one histogram.
type series struct {
	family string
	tally.Labels
	outcome string
}

type histogram struct {
	buckets []uint64 // as tally.Buckets, and +Inf
	sum     time.Duration
}

const (
	wait      = "interlock_acquire_wait_time_seconds"
	failures  = "interlock_acquire_failures_total"
	use       = "interlock_hold_use_time_seconds"
	waiters   = "interlock_waiters"
	oldWaiter = "interlock_oldest_waiter_age_seconds"
	holders   = "interlock_holders"
	oldHolder = "interlock_oldest_holder_age_seconds"
	losses    = "interlock_losses_total"
	overruns  = "interlock_overruns_total"
	renewal   = "interlock_renewal_duration_seconds"
	exchanges = "interlock_exchanges_total"
)

// families are in the order in which they are written.
var families = []family{
	{wait, "histogram", "How long acquires took, by their outcome."},
	{failures, "counter", "Acquires that ended without the lock, by the reason."},
	{use, "histogram", "How long locks were held, by how that ended."},
	{waiters, "gauge", "Acquires that wait now."},
	{oldWaiter, "gauge", "For how long the oldest of them has waited."},
	{holders, "gauge", "Leases that are held now."},
	{oldHolder, "gauge", "For how long the oldest of them has been held."},
	{losses, "counter", "Leases that ended without being released."},
	{overruns, "counter", "Leases that were lost though the work under them went on."},
	{renewal, "histogram", "How long the renewals of leases took."},
	{exchanges, "counter", "Exchanges with the backend, as of the last renewal."},
}

// Option configures Metrics.
type Option func(*config)

type config struct {
	names   func(string) string
	backend string
}

// Names adds the label name: what collapse makes of the name of a lock. Each name is a series of each figure, so let
// collapse take away what there are many of, such as the number in "order/17". Of more than 1,000 different results all
// others are one, "(others)". It must not block.
func Names(collapse func(name string) string) Option {
	return func(c *config) { c.names = collapse }
}

// Backend is the label backend of clients that [interlock.New] has made. All others have the scheme of their URL.
func Backend(name string) Option { return func(c *config) { c.backend = name } }

// New makes Metrics without clients.
func New(opts ...Option) *Metrics {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return &Metrics{
		tally:      tally.New(c.names, c.backend),
		histograms: map[series]*histogram{},
		counters:   map[series]uint64{},
	}
}

// Option has a client counted. Several clients may have it.
func (m *Metrics) Option() interlock.ClientOption { return interlock.Observe(m.observe) }

func (m *Metrics) observe(ctx context.Context, e interlock.Event) {
	c := m.tally.Add(ctx, e)
	if c.What == tally.Nothing && !c.First {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.First { // else Prometheus does not see the first one as an increase
		m.counters[series{losses, c.Labels, ""}] += 0
		m.counters[series{overruns, c.Labels, ""}] += 0
		m.counters[series{failures, c.Labels, "busy"}] += 0
	}
	switch c.What {
	case tally.Acquire:
		m.took(wait, c)
		if c.Failed() {
			m.counters[series{failures, c.Labels, c.Outcome}]++
		}
	case tally.Hold:
		m.took(use, c)
		if c.Outcome == tally.Lost {
			m.counters[series{losses, c.Labels, ""}]++
		}
	case tally.Overrun:
		m.counters[series{overruns, c.Labels, ""}]++
	case tally.Renewal:
		m.took(renewal, c)
		m.counters[series{exchanges, c.Labels, ""}] += e.Exchanges
	}
}

// took is called with m.mu held.
func (m *Metrics) took(family string, c tally.Change) {
	if c.Took < 0 {
		return
	}
	at := series{family, c.Labels, c.Outcome}
	h := m.histograms[at]
	if h == nil {
		h = &histogram{buckets: make([]uint64, len(tally.Buckets)+1)}
		m.histograms[at] = h
	}
	i, _ := slices.BinarySearch(tally.Buckets, c.Took.Seconds())
	h.buckets[i]++
	h.sum += c.Took
}

// ServeHTTP answers with all figures, as Prometheus asks for them.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(m.text())
}

func (m *Metrics) text() []byte {
	gauges := m.tally.Gauges()
	m.mu.Lock() // acquires need it, too: the page is made without it
	counters, histograms := maps.Clone(m.counters), make(map[series]*histogram, len(m.histograms))
	for at, h := range m.histograms {
		histograms[at] = &histogram{slices.Clone(h.buckets), h.sum}
	}
	m.mu.Unlock()
	var p page
	for _, f := range families {
		p.begin(f)
		for _, g := range gauges {
			switch at := labels(g.Labels, ""); f.name {
			case waiters:
				p.sample(at, float64(g.Waiters))
			case oldWaiter:
				p.sample(at, g.OldestWaiter.Seconds())
			case holders:
				p.sample(at, float64(g.Holders))
			case oldHolder:
				p.sample(at, g.OldestHolder.Seconds())
			}
		}
		for at, n := range counters {
			if at.family == f.name {
				p.sample(labels(at.Labels, at.outcome), float64(n))
			}
		}
		for at, h := range histograms {
			if at.family == f.name {
				p.histogram(labels(at.Labels, at.outcome), h)
			}
		}
		p.end()
	}
	return p.text
}
