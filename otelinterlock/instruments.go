package otelinterlock

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/collector"
)

type instruments struct {
	collector    *collector.Collector
	named        bool
	tracer       trace.Tracer
	registration metric.Registration

	counted map[*collector.Metric]count
	seen    map[*collector.Metric]see

	sets sync.Map // by set, measurement options
}

// set is what a measurement is told apart by.
type set struct {
	collector.Labels
	outcome string
}

type (
	count = func(ctx context.Context, by float64, of metric.MeasurementOption)
	see   = func(o metric.Observer, is float64, of metric.ObserveOption)
)

func (i *instruments) make(m metric.Meter) {
	i.counted, i.seen = map[*collector.Metric]count{}, map[*collector.Metric]see{}
	var all []metric.Observable
	for _, f := range collector.Metrics {
		name, unit, help := "interlock."+f.Name, metric.WithUnit(f.Unit), metric.WithDescription(f.Help)
		switch {
		case f.Kind == collector.Histogram:
			h := made(m.Float64Histogram(name, unit, help, metric.WithExplicitBucketBoundaries(collector.Buckets...)))
			i.counted[f] = func(ctx context.Context, by float64, of metric.MeasurementOption) { h.Record(ctx, by, of) }
		case f.Kind == collector.Counter:
			c := made(m.Int64Counter(name, unit, help))
			i.counted[f] = func(ctx context.Context, by float64, of metric.MeasurementOption) { c.Add(ctx, int64(by), of) }
		case f.Unit == "s":
			age := made(m.Float64ObservableGauge(name, unit, help))
			all, i.seen[f] = append(all, age), func(o metric.Observer, is float64, of metric.ObserveOption) { o.ObserveFloat64(age, is, of) }
		default:
			n := made(m.Int64ObservableUpDownCounter(name, unit, help))
			all, i.seen[f] = append(all, n), func(o metric.Observer, is float64, of metric.ObserveOption) { o.ObserveInt64(n, int64(is), of) }
		}
	}
	i.registration = made(m.RegisterCallback(i.gauges, all...))
}

// made is an instrument; one that was refused comes with an error, and does nothing.
func made[I any](instrument I, err error) I {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

func (i *instruments) unregister() {
	if i.registration != nil {
		_ = i.registration.Unregister()
	}
}

func (i *instruments) gauges(_ context.Context, o metric.Observer) error {
	for _, g := range i.collector.Gauges() {
		of := metric.WithAttributes(attributes(g.Labels, "", "")...)
		for f, see := range i.seen {
			see(o, f.Of(g), of)
		}
	}
	return nil
}

// attributes leaves out what is not known. In spans they have a prefix, since they stand beside others.
func attributes(l collector.Labels, outcome, prefix string) (all []attribute.KeyValue) {
	for _, a := range [...]struct{ key, value string }{
		{"backend", l.Backend}, {"kind", l.Kind}, {"name", l.Name}, {"outcome", outcome},
	} {
		if a.value != "" {
			all = append(all, attribute.String(prefix+a.key, a.value))
		}
	}
	return all
}

func (i *instruments) of(l collector.Labels, outcome string) metric.MeasurementOption {
	at := set{l, outcome}
	option, known := i.sets.Load(at)
	if !known {
		option, _ = i.sets.LoadOrStore(at, metric.WithAttributeSet(attribute.NewSet(attributes(l, outcome, "")...)))
	}
	return option.(metric.MeasurementOption)
}

// measure counts an item.
func (i *instruments) measure(it item) {
	it.Counts(func(f *collector.Metric, outcome string, by float64) {
		i.counted[f](it.ctx, by, i.of(it.Labels, outcome))
	})
}

// start makes the span of an acquire or a lease that is over.
func (i *instruments) start(it item) trace.Span {
	name := "interlock.acquire"
	if it.What == collector.Hold {
		name = "interlock.hold"
	}
	_, span := i.tracer.Start(it.ctx, name, trace.WithTimestamp(it.Event.Time.Add(-max(0, it.Change.Took))))
	return span
}

// end ends it.
func (i *instruments) end(it item) {
	span, ended := it.span, trace.WithTimestamp(it.Event.Time)
	defer span.End(ended)
	span.SetAttributes(attributes(it.Labels, it.Outcome, "interlock.")...)
	span.SetAttributes(attribute.Int64("interlock.units", it.Units))
	if it.Token != 0 {
		span.SetAttributes(attribute.Int64("interlock.token", int64(it.Token)))
	}
	if !it.Waits.IsZero() {
		span.AddEvent(string(interlock.EventWaiting), trace.WithTimestamp(it.Waits))
	}
	if it.Failed() && it.Outcome != "busy" || it.Outcome == collector.Lost {
		span.SetAttributes(attribute.String("error.type", it.Outcome))
		span.SetStatus(codes.Error, it.Outcome)
		if i.named && it.Err != nil {
			span.RecordError(it.Err, ended)
		}
	}
}
