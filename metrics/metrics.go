// Package metrics shows what the locks of a program do in the text format of Prometheus:
//
//	locks := metrics.New()
//	c, err := interlock.Open(ctx, "redis://localhost:6379", locks.Option())
//	if err != nil {
//		return err
//	}
//	http.Handle("/metrics", locks)
//
// It needs nothing but the standard library. A program that uses OpenTelemetry takes package otelinterlock, which has
// the same metrics with the same names. docs/telemetry.md lists them, and what they cost.
package metrics

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/collector"
)

// Metrics counts what happens to the clients that have its Option. It is an [http.Handler] that writes the metrics.
type Metrics struct {
	collector *collector.Collector

	mu         sync.Mutex
	histograms map[series]*histogram
	counters   map[series]float64
}

// series is one line of a metric, or the lines of one histogram.
type series struct {
	*collector.Metric
	collector.Labels
	outcome string
}

type histogram struct {
	buckets []uint64 // as collector.Buckets, and +Inf
	sum     float64
}

// Option configures Metrics.
type Option func(*config)

type config struct {
	names   func(string) string
	backend string
}

// Names adds the label name: what collapse makes of the name of a lock. Each name is a series of each metric, so let
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
		collector:  collector.New(c.names, c.backend),
		histograms: map[series]*histogram{},
		counters:   map[series]float64{},
	}
}

// Option has a client counted. Several clients may have it.
func (m *Metrics) Option() interlock.ClientOption { return interlock.Observe(m.observe) }

func (m *Metrics) observe(ctx context.Context, e interlock.Event) {
	c := m.collector.Add(ctx, e)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Counts(func(f *collector.Metric, outcome string, by float64) {
		at := series{f, c.Labels, outcome}
		if f.Kind == collector.Counter {
			m.counters[at] += by
			return
		}
		h := m.histograms[at]
		if h == nil {
			h = &histogram{buckets: make([]uint64, len(collector.Buckets)+1)}
			m.histograms[at] = h
		}
		i, _ := slices.BinarySearch(collector.Buckets, by)
		h.buckets[i]++
		h.sum += by
	})
}

// ServeHTTP answers with all metrics, as Prometheus asks for them.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(m.text())
}

func (m *Metrics) text() []byte {
	gauges := m.collector.Gauges()
	m.mu.Lock() // acquires need it, too: the page is made without it
	counters, histograms := maps.Clone(m.counters), make(map[series]*histogram, len(m.histograms))
	for at, h := range m.histograms {
		histograms[at] = &histogram{slices.Clone(h.buckets), h.sum}
	}
	m.mu.Unlock()
	var p page
	for _, f := range collector.Metrics {
		name := "interlock_" + strings.ReplaceAll(f.Name, ".", "_")
		switch {
		case f.Unit == "s":
			name += "_seconds"
		case f.Kind == collector.Counter:
			name += "_total"
		}
		var blocks []string
		for _, g := range gauges {
			if f.Of != nil {
				blocks = append(blocks, line(name, labels(g.Labels, ""), f.Of(g)))
			}
		}
		for at, n := range counters {
			if at.Metric == f {
				blocks = append(blocks, line(name, labels(at.Labels, at.outcome), n))
			}
		}
		for at, h := range histograms {
			if at.Metric == f {
				blocks = append(blocks, h.lines(name, labels(at.Labels, at.outcome)))
			}
		}
		p.family(name, string(f.Kind), f.Help, blocks)
	}
	return p.Bytes()
}
