package metrics_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/metrics"
)

func client(t *testing.T, w *memlock.World, opts ...interlock.ClientOption) (*interlock.Client, *memlock.Faults) {
	t.Helper()
	d := w.Driver()
	c, err := interlock.New(context.Background(), d, opts...)
	ok(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, d.Faults()
}

func ok(t *testing.T, err error) {
	t.Helper()
	errtest.None(t, err)
}

func text(m *metrics.Metrics) string {
	r := httptest.NewRecorder()
	m.ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	return r.Body.String()
}

// values are those of all series.
func values(t *testing.T, text string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if _, twice := all[line[:at]]; err != nil || twice {
			t.Errorf("%q: %v, or it comes twice", line, err)
		}
		all[line[:at]] = v
	}
	return all
}

// lint has promtool look at a page.
func lint(t *testing.T, page string) {
	t.Helper()
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s\n%s", err, out, page)
	}
}

// A run with a loss, and one that waits in vain.
func TestFiguresOfALoss(t *testing.T) {
	var page string
	bubble.Run(t, func(t *testing.T) {
		m := metrics.New(metrics.Backend("memory"))
		c, faults := client(t, memlock.NewWorld(), m.Option())
		done := make(chan error, 1)
		go func() {
			done <- c.Mutex("m").Do(t.Context(), func(held context.Context) error {
				<-held.Done()
				time.Sleep(40 * time.Second) // it overruns, and says so each TTL
				return nil
			})
		}()
		synctest.Wait()
		waiting, cancel := context.WithCancel(t.Context())
		go c.Mutex("m").Acquire(waiting)
		time.Sleep(3 * time.Second)
		for range 5 { // later, and so not the oldest
			go c.Mutex("m").Acquire(waiting)
			go c.Mutex(rand.Text()).Do(waiting, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}
		time.Sleep(4 * time.Second)
		for series, want := range map[string]float64{
			`interlock_holders{backend="memory",kind="mutex"}`:                               6,
			`interlock_oldest_holder_age_seconds{backend="memory",kind="mutex"}`:             7,
			`interlock_waiters{backend="memory",kind="mutex"}`:                               6,
			`interlock_oldest_waiter_age_seconds{backend="memory",kind="mutex"}`:             7,
			`interlock_losses_total{backend="memory",kind="mutex"}`:                          0,
			`interlock_overruns_total{backend="memory",kind="mutex"}`:                        0,
			`interlock_acquire_failures_total{backend="memory",kind="mutex",outcome="busy"}`: 0,
		} {
			got := values(t, text(m))
			if v, there := got[series]; !there || v != want {
				t.Errorf("%s is %v, not %v", series, v, want)
			}
		}
		cancel()
		synctest.Wait()
		faults.Expire()
		if err := <-done; !errors.Is(err, interlock.ErrLost) {
			t.Error(err)
		}
		synctest.Wait()
		page = text(m)
		for series, want := range map[string]float64{
			`interlock_holders{backend="memory",kind="mutex"}`:                                   0,
			`interlock_oldest_holder_age_seconds{backend="memory",kind="mutex"}`:                 0,
			`interlock_waiters{backend="memory",kind="mutex"}`:                                   0,
			`interlock_losses_total{backend="memory",kind="mutex"}`:                              1,
			`interlock_overruns_total{backend="memory",kind="mutex"}`:                            1,
			`interlock_acquire_failures_total{backend="memory",kind="mutex",outcome="canceled"}`: 6,

			`interlock_acquire_wait_time_seconds_count{backend="memory",kind="mutex",outcome="canceled"}`:            6,
			`interlock_acquire_wait_time_seconds_sum{backend="memory",kind="mutex",outcome="canceled"}`:              27,
			`interlock_acquire_wait_time_seconds_bucket{backend="memory",kind="mutex",outcome="canceled",le="5"}`:    5,
			`interlock_acquire_wait_time_seconds_bucket{backend="memory",kind="mutex",outcome="canceled",le="15"}`:   6,
			`interlock_acquire_wait_time_seconds_bucket{backend="memory",kind="mutex",outcome="acquired",le="+Inf"}`: 6,
			`interlock_hold_use_time_seconds_count{backend="memory",kind="mutex",outcome="lost"}`:                    1,
		} {
			if v, there := values(t, page)[series]; !there || v != want {
				t.Errorf("%s is %v, not %v:\n%s", series, v, want, page)
			}
		}
	})
	lint(t, page)
}

// How long a lease was held that was adopted, and lost, is not known; that it was lost is.
func TestAnAdoptedLeaseIsLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		m, w := metrics.New(), memlock.NewWorld()
		c, _ := client(t, w, m.Option())
		other, _ := client(t, w)
		lease, err := other.Mutex("m", interlock.ExpiresAfter(time.Hour)).Acquire(t.Context())
		ok(t, err)
		adopted, err := c.Adopt(t.Context(), "m", lease.ID())
		ok(t, err)
		ok(t, lease.Release())
		<-adopted.Done()
		synctest.Wait()
		page := text(m)
		if !strings.Contains(page, `interlock_losses_total{kind="mutex"} 1`) || strings.Contains(page, "interlock_hold_use") {
			t.Error(page)
		}
	})
}

// Many acquire one name at the same time, by two clients, some of them in vain, and get it from each other: each
// beginning finds its end.
func TestEachOfManyIsCountedOnce(t *testing.T) {
	m := metrics.New()
	w := memlock.NewWorld()
	a, _ := client(t, w, m.Option())
	b, _ := client(t, w, m.Option())
	const goroutines, times = 40, 25
	var all sync.WaitGroup
	for n := range goroutines {
		c := []*interlock.Client{a, b}[n%2]
		all.Go(func() {
			for k := range times {
				l := c.Mutex("one")
				if k%5 == 4 {
					l = c.Mutex("one", interlock.Wait(100*time.Microsecond))
				}
				if lease, err := l.Acquire(context.Background()); err == nil {
					_ = lease.Release()
				}
			}
		})
	}
	all.Wait()
	got, ended := 0.0, 0.0
	for series, v := range values(t, text(m)) {
		switch name, labels, _ := strings.Cut(series, "{"); name {
		case "interlock_acquire_wait_time_seconds_count":
			ended += v
			if strings.Contains(labels, `"acquired"`) || strings.Contains(labels, `"handed-over"`) {
				got += v
			}
		case "interlock_hold_use_time_seconds_count":
			got -= v
		case "interlock_waiters", "interlock_holders", "interlock_oldest_waiter_age_seconds", "interlock_oldest_holder_age_seconds":
			if v != 0 {
				t.Errorf("%s is %v", series, v)
			}
		}
	}
	if ended != goroutines*times || got != 0 {
		t.Errorf("%v of %d acquires ended, and %v leases did not", ended, goroutines*times, got)
	}
}

// What others have written into names and kinds stays in its label, and there are no more locks than the page can bear.
func TestQueuesAreBoundedAndEscaped(t *testing.T) {
	queues := []interlock.Queue{
		{Name: "plain", Kind: "mutex", Holders: []interlock.Member{{Since: time.Now().Add(-time.Minute)}, {}}, Waiters: []interlock.Member{{}},
			Overruns: []interlock.Overrun{{}}},
		{Name: "plain", Kind: "mutex"}, // again, such as one that is listed twice
		{Name: "a\"} 1\ninterlock_lock_holders{name=\"b", Kind: `x\`},
		{Name: "\xff\xfe", Kind: "mutex"},
		{Name: "\xfe\xff", Kind: "mutex"},
	}
	for n := range 1000 {
		queues = append(queues, interlock.Queue{Name: fmt.Sprint("lock/", n), Kind: "rwmutex"})
	}
	var b bytes.Buffer
	ok(t, metrics.WriteQueues(&b, queues))
	lint(t, b.String())
	got := values(t, b.String())
	for series, want := range map[string]float64{
		`interlock_lock_holders{kind="mutex",name="plain"}`:                                 2,
		`interlock_lock_waiters{kind="mutex",name="plain"}`:                                 1,
		`interlock_lock_overruns{kind="mutex",name="plain"}`:                                1,
		`interlock_lock_holders{kind="x\\",name="a\"} 1\ninterlock_lock_holders{name=\"b"}`: 0,
		`interlock_lock_holders{kind="mutex",name="` + "\uFFFD" + `"}`:                      0,
		`interlock_lock_holders{kind="rwmutex",name="lock/994"}`:                            0,
		`interlock_locks_left_out`:                                                          5,
	} {
		if v, there := got[series]; !there || v != want {
			t.Errorf("%s is %v, not %v", series, v, want)
		}
	}
	if age := got[`interlock_lock_oldest_holder_age_seconds{kind="mutex",name="plain"}`]; age < 60 || age > 600 {
		t.Errorf("the oldest holder has %v s", age)
	}
	if _, there := got[`interlock_lock_oldest_waiter_age_seconds{kind="mutex",name="plain"}`]; there {
		t.Error("a waiter has an age that the backend does not know")
	}
	if _, there := got[`interlock_lock_holders{kind="rwmutex",name="lock/995"}`]; there {
		t.Error("more than 1,000 are shown")
	}
	full := errors.New("full")
	errtest.Is(t, metrics.WriteQueues(writer{full}, queues), full, "a writer that fails")
}

type writer struct{ err error }

func (w writer) Write([]byte) (int, error) { return 0, w.err }

// What an acquire and a release cost, without and with figures.
func BenchmarkObserved(b *testing.B) {
	for name, opts := range map[string][]interlock.ClientOption{"off": nil, "on": {metrics.New().Option()}} {
		b.Run(name, func(b *testing.B) {
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
