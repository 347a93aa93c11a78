// Package otelinterlock shows what the locks of a program do by OpenTelemetry, as spans and as metrics:
//
//	instrument, stop := otelinterlock.Instrument()
//	defer stop(context.Background())
//	c, err := interlock.Open(ctx, "redis://localhost:6379", instrument)
//	…
//	defer c.Close()
//
// Each acquire is a span interlock.acquire, and each lease a span interlock.hold. Both are children of the span of the
// context that the lock was acquired with, and siblings of what is done under the lock. A lease has its span
// when it has ended; how old those are that are held is a metric.
//
// Telemetry breaks no lock. A panic of OpenTelemetry goes to [otel.Handle]. Spans are ended by a goroutine of their
// own, so that an exporter that blocks delays nothing but spans: then at most 1,024 wait, and others are dropped, which
// otel.Handle is told. Metrics are only counted when a lock is used, and miss nothing. docs/telemetry.md lists names,
// units, attributes and costs. Programs without OpenTelemetry take package metrics.
package otelinterlock

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/collector"
)

const scope = "github.com/interlock-go/interlock/otelinterlock"

// Option configures Instrument.
type Option func(*config)

type config struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	names   func(string) string
	backend string
}

// WithTracerProvider takes the place of the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithMeterProvider takes the place of the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithNames adds the attribute name: what collapse makes of the name of a lock. Each name is a series of each metric,
// so let collapse take away what there are many of, such as the number in "order/17". Of more than 1,000 different
// results all others are one, "(others)". It must not block. Errors, which name the lock, are recorded in spans then,
// too.
func WithNames(collapse func(name string) string) Option {
	return func(c *config) { c.names = collapse }
}

// WithBackend is the attribute backend of clients that [interlock.New] has made. All others have the scheme of
// their URL.
func WithBackend(name string) Option { return func(c *config) { c.backend = name } }

// Instrument returns an option for clients. All clients of a program share one: gauges of two with the same
// providers would take each other's place. Stop ends spans and gauges: it waits until all
// spans were made, or ctx ends. Call it after Close of the clients, before Shutdown of the providers.
func Instrument(opts ...Option) (instrument interlock.ClientOption, stop func(ctx context.Context) error) {
	c := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, o := range opts {
		o(&c)
	}
	i := &instruments{collector: collector.New(c.names, c.backend), named: c.names != nil, tracer: c.tracers.Tracer(scope)}
	guarded(func() { i.make(c.meters.Meter(scope)) })
	q := &queue{do: i.end}
	observe := func(ctx context.Context, e interlock.Event) {
		it := item{ctx: context.WithoutCancel(ctx), Event: e, Change: i.collector.Add(ctx, e)}
		if it.What == collector.Nothing && !it.First {
			return
		}
		guarded(func() { i.measure(it) })
		if it.What == collector.Acquire || it.What == collector.Hold {
			guarded(func() { it.span = i.start(it) })
		}
		if it.span != nil && it.span.IsRecording() {
			q.add(it)
		}
	}
	return interlock.Observe(observe), func(ctx context.Context) error {
		guarded(i.unregister)
		return q.stop(ctx)
	}
}
