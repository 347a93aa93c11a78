package otelinterlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/metrics"
	"github.com/interlock-go/interlock/otelinterlock"
)

const ttl = 15 * time.Second

// seen is what OpenTelemetry has of some clients.
type seen struct {
	t      *testing.T
	spans  *tracetest.InMemoryExporter
	tracer *trace.TracerProvider
	reader *metric.ManualReader
	option interlock.ClientOption
	stop   func(context.Context) error
}

func watch(t *testing.T, opts ...otelinterlock.Option) *seen {
	s := &seen{t: t, spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	s.tracer = trace.NewTracerProvider(trace.WithSyncer(s.spans))
	s.option, s.stop = otelinterlock.Instrument(append([]otelinterlock.Option{
		otelinterlock.WithTracerProvider(s.tracer),
		otelinterlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(s.reader))),
		otelinterlock.WithBackend("memory"),
	}, opts...)...)
	return s
}

func (s *seen) client(w *memlock.World, opts ...interlock.ClientOption) (*interlock.Client, *memlock.Faults) {
	s.t.Helper()
	d := w.Driver()
	c := errtest.Must(interlock.New(context.Background(), d, append(opts, s.option)...))(s.t)
	s.t.Cleanup(func() { _ = c.Close() })
	return c, d.Faults()
}

// values are those of all series, by name and attributes: of a histogram the number of its measurements.
func (s *seen) values() map[string]float64 {
	s.t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &all); err != nil {
		s.t.Error(err)
	}
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(set attribute.Set, v float64) {
				values[m.Name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] = v
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			default:
				s.t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return values
}

func (s *seen) want(want map[string]float64) {
	s.t.Helper()
	got := s.values()
	for series, v := range want {
		if got[series] != v {
			s.t.Errorf("%s is %v, not %v: %v", series, got[series], v, got)
		}
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	errtest.None(t, err)
}

// attributesOf shows those of a span.
func attributesOf(s tracetest.SpanStub) string {
	var all []string
	for _, a := range s.Attributes {
		all = append(all, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// A run with a loss: a waits for b, and loses what it gets.
func TestSpansAndMetricsOfALoss(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := watch(t)
		w := memlock.NewWorld()
		a, faults := s.client(w)
		other, err := interlock.New(t.Context(), w.Driver())
		ok(t, err)
		defer other.Close()
		before, err := other.Mutex("secret").Acquire(t.Context())
		ok(t, err)

		ctx, parent := s.tracer.Tracer("test").Start(t.Context(), "work")
		began := time.Now()
		token := make(chan uint64, 1)
		done := make(chan error, 1)
		go func() {
			done <- a.Mutex("secret").Do(ctx, func(held context.Context) error {
				lease, _ := a.Mutex("secret").Held(held)
				token <- lease.Token()
				<-held.Done()
				time.Sleep(2 * time.Second) // longer than there is for stopping
				return nil
			})
		}()
		time.Sleep(3 * time.Second)
		s.want(map[string]float64{
			"interlock.waiters{backend=memory,kind=mutex}": 1, "interlock.oldest_waiter.age{backend=memory,kind=mutex}": 3,
			"interlock.holders{backend=memory,kind=mutex}": 0, "interlock.losses{backend=memory,kind=mutex}": 0,
		})
		ok(t, before.Release())
		time.Sleep(4 * time.Second)
		s.want(map[string]float64{
			"interlock.waiters{backend=memory,kind=mutex}": 0, "interlock.oldest_waiter.age{backend=memory,kind=mutex}": 0,
			"interlock.holders{backend=memory,kind=mutex}": 1, "interlock.oldest_holder.age{backend=memory,kind=mutex}": 4,
			"interlock.acquire.wait_time{backend=memory,kind=mutex,outcome=acquired}": 1,
			"interlock.hold.use_time{backend=memory,kind=mutex,outcome=lost}":         0,
		})
		faults.Expire()
		errtest.Is(t, <-done, interlock.ErrLost, "the work ended with")
		parent.End()
		synctest.Wait()
		s.want(map[string]float64{
			"interlock.holders{backend=memory,kind=mutex}": 0, "interlock.oldest_holder.age{backend=memory,kind=mutex}": 0,
			"interlock.losses{backend=memory,kind=mutex}": 1, "interlock.overruns{backend=memory,kind=mutex}": 1,
			"interlock.hold.use_time{backend=memory,kind=mutex,outcome=lost}": 1,
		})
		if v := s.values(); v["interlock.renewal.duration{backend=memory}"] < 1 || v["interlock.exchanges{backend=memory}"] < 3 {
			t.Errorf("the renewals: %v", v)
		}

		spans := s.spans.GetSpans()
		if len(spans) != 3 {
			t.Fatalf("%d spans: %v", len(spans), spans)
		}
		acquire, hold := spans[0], spans[1]
		for _, c := range []struct {
			span       tracetest.SpanStub
			name       string
			from, to   time.Duration
			attributes string
			status     codes.Code
		}{
			{acquire, "interlock.acquire", 0, 3 * time.Second, "interlock.backend=memory interlock.kind=mutex interlock.outcome=acquired interlock.token=%d interlock.units=1", codes.Unset},
			{hold, "interlock.hold", 3 * time.Second, 0, "error.type=lost interlock.backend=memory interlock.kind=mutex interlock.outcome=lost interlock.token=%d interlock.units=1", codes.Error},
		} {
			if c.span.Name != c.name || c.span.Parent.SpanID() != parent.SpanContext().SpanID() {
				t.Errorf("%s, a child of %v", c.span.Name, c.span.Parent.SpanID())
			}
			if from := c.span.StartTime.Sub(began); from != c.from {
				t.Errorf("%s begins after %v, not %v", c.name, from, c.from)
			}
			if to := c.span.EndTime.Sub(began); c.to != 0 && to != c.to || to < 3*time.Second {
				t.Errorf("%s ends after %v, not %v", c.name, to, c.to)
			}
			if c.span.Status.Code != c.status {
				t.Errorf("%s has the status %v", c.name, c.span.Status)
			}
			if len(token) == 0 && strings.Contains(c.attributes, "%d") {
				t.Fatal("no token")
			}
			n := <-token
			token <- n
			if got, want := attributesOf(c.span), fmt.Sprintf(c.attributes, n); got != want {
				t.Errorf("%s: %s\nwant: %s", c.name, got, want)
			}
		}
		if len(acquire.Events) != 1 || acquire.Events[0].Name != "waiting" || !acquire.Events[0].Time.Equal(began) {
			t.Errorf("events of the acquire: %v", acquire.Events)
		}
		if text := fmt.Sprintf("%+v %v", spans, s.values()); strings.Contains(text, "secret") {
			t.Errorf("the name is shown: %s", text)
		}
	})
}

// Each way in which an acquire comes to nothing has its reason, also if its context was cancelled.
func TestFailuresHaveReasons(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := watch(t)
		w := memlock.NewWorld()
		a, faults := s.client(w)
		b, err := interlock.New(t.Context(), w.Driver())
		ok(t, err)
		defer b.Close()
		errtest.Must(b.Mutex("held").Acquire(t.Context()))(t)
		_, _ = a.Mutex("held").TryAcquire(t.Context())
		_, _ = a.Mutex("held", interlock.Wait(time.Second)).Acquire(t.Context())
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		_, _ = a.Mutex("held").Acquire(short)
		cancel()
		canceled, why := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { why(errors.New("of another kind")) })
		_, _ = a.Mutex("held").Acquire(canceled)
		_, _ = a.Mutex("").Acquire(t.Context())
		_, _ = a.Semaphore("held", 3).Acquire(t.Context())
		_ = a.Mutex("own").Do(t.Context(), func(ctx context.Context) error {
			_, err := a.Mutex("own").Acquire(ctx)
			return err
		})
		faults.Before("Join", 1).Refuse(errors.New("no right"))
		_, _ = a.Mutex("free").Acquire(t.Context())
		faults.Cut()
		_, _ = a.Mutex("held", interlock.Wait(ttl)).Acquire(t.Context())
		faults.Heal()
		go a.Mutex("held").Acquire(context.Background())
		time.Sleep(time.Minute)
		ok(t, a.Close())
		ok(t, s.stop(t.Context()))
		for reason, n := range map[string]float64{
			"busy": 1, "timeout": 2, "canceled": 1, "deadlock": 1, "failed": 1, "unavailable": 1, "closed": 1,
		} {
			s.want(map[string]float64{
				"interlock.acquire.failures{backend=memory,kind=mutex,outcome=" + reason + "}":  n,
				"interlock.acquire.wait_time{backend=memory,kind=mutex,outcome=" + reason + "}": n,
			})
		}
		s.want(map[string]float64{
			"interlock.acquire.failures{backend=memory,kind=mutex,outcome=refused}":     1,
			"interlock.acquire.failures{backend=memory,kind=semaphore,outcome=refused}": 1,
		})
		for _, span := range s.spans.GetSpans() {
			busy := strings.Contains(attributesOf(span), "outcome=busy")
			failed := strings.Contains(attributesOf(span), "error.type")
			for _, e := range span.Events {
				if e.Name != "waiting" {
					t.Errorf("an error that names the lock is shown: %v", e)
				}
			}
			if failed != (span.Status.Code == codes.Error) || busy && failed {
				t.Errorf("%s has the status %v", attributesOf(span), span.Status)
			}
		}
	})
}

// exporter does what a test says with each span.
type exporter func()

func (e exporter) ExportSpans(context.Context, []trace.ReadOnlySpan) error { e(); return nil }
func (e exporter) Shutdown(context.Context) error                          { return nil }

// handled collects what goes to otel.Handle.
type handled struct {
	mu   sync.Mutex
	errs []string
}

func (h *handled) Handle(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err.Error())
}

func (h *handled) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.errs, "; ")
}

func handle(t *testing.T) *handled {
	h := &handled{}
	otel.SetErrorHandler(h)
	t.Cleanup(func() { otel.SetErrorHandler(&handled{}) })
	return h
}

func TestAnExporterThatPanicsBreaksNoLock(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		h := handle(t)
		broken := exporter(func() { panic("out of order") })
		s := watch(t, otelinterlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(broken))))
		c, _ := s.client(memlock.NewWorld())
		ok(t, c.Mutex("m").Do(t.Context(), func(context.Context) error { return nil }))
		ok(t, s.stop(t.Context()))
		if !strings.Contains(h.String(), "otelinterlock: panic: out of order") {
			t.Errorf("handled: %s", h)
		}
		s.want(map[string]float64{"interlock.hold.use_time{backend=memory,kind=mutex,outcome=released}": 1})
	})
}

func TestAnExporterThatBlocksDelaysNoLock(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		h := handle(t)
		open := make(chan struct{})
		blocked := exporter(func() { <-open })
		s := watch(t, otelinterlock.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(blocked))))
		c, _ := s.client(memlock.NewWorld())
		began := time.Now()
		for range 1000 {
			ok(t, c.Mutex("m").Do(t.Context(), func(context.Context) error { return nil }))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("locks were delayed by %v", took)
		}
		if _, err := c.Mutex("m").Acquire(t.Context()); err != nil {
			t.Error(err)
		}
		s.want(map[string]float64{ // metrics miss nothing
			"interlock.holders{backend=memory,kind=mutex}":                            1,
			"interlock.hold.use_time{backend=memory,kind=mutex,outcome=released}":     1000,
			"interlock.acquire.wait_time{backend=memory,kind=mutex,outcome=acquired}": 1001,
		})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errtest.Is(t, s.stop(short), context.DeadlineExceeded, "stop")
		close(open)
		ok(t, s.stop(t.Context()))
		if !regexp.MustCompile(`otelinterlock: \d{3} spans were dropped`).MatchString(h.String()) {
			t.Errorf("handled: %s", h)
		}
	})
}

// Names are shown as the user's function makes them, and there are no more than a thousand.
func TestNamesAreCollapsed(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := watch(t, otelinterlock.WithNames(func(name string) string {
			if name == "bad" {
				panic(name)
			}
			kind, _, _ := strings.Cut(name, "/")
			return kind
		}))
		c, _ := s.client(memlock.NewWorld())
		use := func(name string) {
			ok(t, c.Mutex(name).Do(t.Context(), func(context.Context) error { return nil }))
		}
		use("order/1")
		use("order/2")
		use("bad")
		for n := range 1100 {
			use(fmt.Sprint(n))
			synctest.Wait()
		}
		series := map[string]bool{}
		for at, v := range s.values() {
			if strings.HasPrefix(at, "interlock.hold.use_time") {
				series[at] = true
				if strings.Contains(at, "name=order") && v != 2 {
					t.Errorf("%s is %v", at, v)
				}
			}
		}
		if len(series) != 1001 || !series["interlock.hold.use_time{backend=memory,kind=mutex,name=(others),outcome=released}"] ||
			!series["interlock.hold.use_time{backend=memory,kind=mutex,name=(panic),outcome=released}"] {
			t.Errorf("%d names are shown", len(series))
		}
	})
}

// One dashboard serves both: the names and labels of package metrics are those that Prometheus makes of these.
func TestBothPackagesHaveTheSameFigures(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := watch(t)
		m := metrics.New(metrics.Backend("memory"))
		w := memlock.NewWorld()
		c, faults := s.client(w, m.Option())
		_ = c.Mutex("m").Do(t.Context(), func(ctx context.Context) error { // also by the one that is lost
			_, err := c.Mutex("m").TryAcquire(context.Background())
			faults.Expire()
			<-ctx.Done()
			time.Sleep(ttl)
			return err
		})
		synctest.Wait()
		ours := map[string]bool{}
		for series := range s.values() {
			name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
			name = strings.ReplaceAll(name, ".", "_")
			switch name {
			case "interlock_losses", "interlock_overruns", "interlock_acquire_failures", "interlock_exchanges":
				name += "_total"
			case "interlock_waiters", "interlock_holders":
			default:
				name += "_seconds"
			}
			ours[name+"{"+regexp.MustCompile(`=([^,]*)`).ReplaceAllString(labels, `="$1"`)+"}"] = true
		}
		r := httptest.NewRecorder()
		m.ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
		text, _ := io.ReadAll(r.Body)
		theirs := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			series := line[:strings.LastIndex(line, " ")]
			if !strings.HasPrefix(line, "#") && !strings.Contains(series, "_bucket{") && !strings.Contains(series, "_sum{") {
				theirs[strings.Replace(series, "_count{", "{", 1)] = true
			}
		}
		for series := range ours {
			if !theirs[series] {
				t.Errorf("only here: %s", series)
			}
		}
		for series := range theirs {
			if !ours[series] {
				t.Errorf("only in metrics: %s", series)
			}
		}
		if len(ours) < 11 {
			t.Errorf("few series: %v", ours)
		}
	})
}

// What an acquire and a release cost, without and with metrics, and with spans too.
func BenchmarkObserved(b *testing.B) {
	meters := otelinterlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	tracers := otelinterlock.WithTracerProvider(trace.NewTracerProvider(trace.WithBatcher(exporter(func() {}))))
	for _, with := range []struct {
		name string
		opts []otelinterlock.Option
	}{{"off", nil}, {"metrics", []otelinterlock.Option{meters}}, {"metrics and spans", []otelinterlock.Option{meters, tracers}}} {
		b.Run(with.name, func(b *testing.B) {
			var opts []interlock.ClientOption
			if with.opts != nil {
				instrument, stop := otelinterlock.Instrument(with.opts...)
				defer stop(context.Background())
				opts = append(opts, instrument)
			}
			c, err := interlock.New(context.Background(), memlock.New(), opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			l := c.Mutex("m")
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Acquire(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				_ = lease.Release()
			}
		})
	}
}
