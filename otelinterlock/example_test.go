package otelinterlock_test

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/otelinterlock"
)

func Example() {
	ctx := context.Background()
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	instrument, stop := otelinterlock.Instrument(
		otelinterlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))), // left out: the global one
		otelinterlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		otelinterlock.WithNames(func(name string) string {
			kind, _, _ := strings.Cut(name, "/") // orders have too many numbers
			return kind
		}),
	)
	c, err := interlock.Open(ctx, "mem:", instrument)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = c.Mutex("order/17").Do(ctx, func(ctx context.Context) error {
		_, err := c.Mutex("order/17").TryAcquire(context.WithoutCancel(ctx))
		return err
	})
	_ = c.Close()
	_ = stop(ctx)

	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.Attributes[2].Value.AsString(), s.Attributes[3].Value.AsString())
	}
	var m metricdata.ResourceMetrics
	_ = reader.Collect(ctx, &m)
	for _, m := range m.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name, m.Unit)
	}
	// Output:
	// interlock.acquire order acquired
	// interlock.acquire order deadlock
	// interlock.hold order released
	// interlock.acquire.wait_time s
	// interlock.acquire.failures {acquire}
	// interlock.hold.use_time s
	// interlock.losses {lease}
	// interlock.overruns {lease}
}

func ExampleInstrument() {
	instrument, stop := otelinterlock.Instrument() // with the global providers
	defer stop(context.Background())
	c, err := interlock.Open(context.Background(), "mem:", instrument)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.Mutex("report").Do(context.Background(), func(context.Context) error { return nil }))
	// Output: <nil>
}
