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
	"github.com/interlock-go/interlock/internal/tally"
)

type instruments struct {
	tally        *tally.Tally
	named        bool
	tracer       trace.Tracer
	registration metric.Registration

	wait, use, renewal                    metric.Float64Histogram
	failures, losses, overruns, exchanges metric.Int64Counter
	waiters, holders                      metric.Int64ObservableUpDownCounter
	oldestWaiter, oldestHolder            metric.Float64ObservableGauge

	sets sync.Map // by set, measurement options
}

// set is what a measurement is told apart by.
type set struct {
	tally.Labels
	outcome string
}

func (i *instruments) make(m metric.Meter) {
	i.wait = made(m.Float64Histogram("interlock.acquire.wait_time", metric.WithUnit("s"), buckets,
		metric.WithDescription("How long acquires took, by their outcome.")))
	i.failures = made(m.Int64Counter("interlock.acquire.failures", metric.WithUnit("{acquire}"),
		metric.WithDescription("Acquires that ended without the lock, by the reason.")))
	i.use = made(m.Float64Histogram("interlock.hold.use_time", metric.WithUnit("s"), buckets,
		metric.WithDescription("How long locks were held, by how that ended.")))
	i.waiters = made(m.Int64ObservableUpDownCounter("interlock.waiters", metric.WithUnit("{acquire}"),
		metric.WithDescription("Acquires that wait now.")))
	i.oldestWaiter = made(m.Float64ObservableGauge("interlock.oldest_waiter.age", metric.WithUnit("s"),
		metric.WithDescription("For how long the oldest of them has waited.")))
	i.holders = made(m.Int64ObservableUpDownCounter("interlock.holders", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that are held now.")))
	i.oldestHolder = made(m.Float64ObservableGauge("interlock.oldest_holder.age", metric.WithUnit("s"),
		metric.WithDescription("For how long the oldest of them has been held.")))
	i.losses = made(m.Int64Counter("interlock.losses", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that ended without being released.")))
	i.overruns = made(m.Int64Counter("interlock.overruns", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that were lost though the work under them went on.")))
	i.renewal = made(m.Float64Histogram("interlock.renewal.duration", metric.WithUnit("s"), buckets,
		metric.WithDescription("How long the renewals of leases took.")))
	i.exchanges = made(m.Int64Counter("interlock.exchanges", metric.WithUnit("{exchange}"),
		metric.WithDescription("Exchanges with the backend, as of the last renewal.")))
	i.registration = made(m.RegisterCallback(i.gauges, i.waiters, i.oldestWaiter, i.holders, i.oldestHolder))
}

var buckets = metric.WithExplicitBucketBoundaries(tally.Buckets...)

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
	for _, g := range i.tally.Gauges() {
		of := metric.WithAttributes(attributes(g.Labels, "", "")...)
		o.ObserveInt64(i.waiters, int64(g.Waiters), of)
		o.ObserveFloat64(i.oldestWaiter, g.OldestWaiter.Seconds(), of)
		o.ObserveInt64(i.holders, int64(g.Holders), of)
		o.ObserveFloat64(i.oldestHolder, g.OldestHolder.Seconds(), of)
	}
	return nil
}

// attributes leaves out what is not known. In spans they have a prefix, since they stand beside others.
func attributes(l tally.Labels, outcome, prefix string) (all []attribute.KeyValue) {
	for _, a := range [...]struct{ key, value string }{
		{"backend", l.Backend}, {"kind", l.Kind}, {"name", l.Name}, {"outcome", outcome},
	} {
		if a.value != "" {
			all = append(all, attribute.String(prefix+a.key, a.value))
		}
	}
	return all
}

func (i *instruments) of(l tally.Labels, outcome string) metric.MeasurementOption {
	at := set{l, outcome}
	option, known := i.sets.Load(at)
	if !known {
		option, _ = i.sets.LoadOrStore(at, metric.WithAttributeSet(attribute.NewSet(attributes(l, outcome, "")...)))
	}
	return option.(metric.MeasurementOption)
}

// measure counts an item.
func (i *instruments) measure(it item) {
	all, by := i.of(it.Labels, ""), i.of(it.Labels, it.Outcome)
	if it.First { // else the first one does not count as an increase
		i.losses.Add(it.ctx, 0, all)
		i.overruns.Add(it.ctx, 0, all)
		i.failures.Add(it.ctx, 0, i.of(it.Labels, "busy"))
	}
	took := it.Change.Took
	switch it.What {
	case tally.Acquire:
		i.wait.Record(it.ctx, took.Seconds(), by)
		if it.Failed() {
			i.failures.Add(it.ctx, 1, by)
		}
	case tally.Hold:
		if took >= 0 {
			i.use.Record(it.ctx, took.Seconds(), by)
		}
		if it.Outcome == tally.Lost {
			i.losses.Add(it.ctx, 1, all)
		}
	case tally.Overrun:
		i.overruns.Add(it.ctx, 1, all)
	case tally.Renewal:
		i.renewal.Record(it.ctx, took.Seconds(), all)
		i.exchanges.Add(it.ctx, int64(it.Exchanges), all)
	}
}

// start makes the span of an acquire or a lease that is over.
func (i *instruments) start(it item) trace.Span {
	name := "interlock.acquire"
	if it.What == tally.Hold {
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
	if it.Failed() && it.Outcome != "busy" || it.Outcome == tally.Lost {
		span.SetAttributes(attribute.String("error.type", it.Outcome))
		span.SetStatus(codes.Error, it.Outcome)
		if i.named && it.Err != nil {
			span.RecordError(it.Err, ended)
		}
	}
}
