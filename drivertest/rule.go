package drivertest

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A rule checks one promise of package driver.
type rule struct {
	name  string
	says  []string // the sentences of package driver
	check func(*T)

	exclusive bool // checked once for each shape of mutual exclusion
	across    bool // checked once more with each client in a process of its own
	processes bool // makes clients in other processes itself
	alone     bool // counts things of the whole process: not beside other rules
}

// limit bounds every wait for something that must happen. It is far more than
// any backend needs, so that a busy machine breaks no rule.
const limit = time.Minute

// T is a rule under check: it fails with the sentence that was broken.
type T struct {
	testing.TB
	Backend

	rule  rule
	shape shape
	world World
	ctx   context.Context // ends with the rule

	closers []func() error
	calls   sync.WaitGroup
}

// A variant is a way in which a rule is checked.
type variant struct {
	name      string
	shape     shape
	processes bool // each client is a process
}

func (r rule) variants(url string) []variant {
	var all []variant
	for _, s := range shapes {
		all = append(all, variant{name: s.name, shape: s})
		if !r.exclusive {
			break
		}
	}
	if r.across && url != "" {
		all = append(all, variant{"in processes", shapes[0], true})
	}
	return all
}

// run checks the rule in a new world, and once more in another one if this
// machine paused for so long that a session died which had to live.
func (r rule) run(tb testing.TB, b Backend, v variant) {
	tb.Helper()
	for range 5 {
		if r.attempt(tb, b, v) {
			return
		}
		tb.Logf("this machine paused for longer than the TTL of %v; again", b.TTL)
	}
	tb.Fatalf("this machine pauses for longer than the TTL of %v all the time", b.TTL)
}

var errPaused = errors.New("paused")

// inTime gives up an attempt that came too late for an instant: what it saw then
// tells nothing about the backend.
func (t *T) inTime(d driver.Driver, end driver.Instant) {
	if d.Now() >= end {
		panic(errPaused)
	}
}

func (r rule) attempt(tb testing.TB, b Backend, v variant) (inTime bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(b.limit, limit))
	t := &T{TB: tb, Backend: b, rule: r, shape: v.shape, world: b.World(tb), ctx: ctx}
	if v.processes {
		t.world = t.world.inProcesses()
	}
	defer func() {
		switch p := recover(); p {
		case errPaused:
			inTime = false
		case nil:
		default:
			panic(p)
		}
	}()
	defer func() {
		cancel()
		for _, c := range t.closers {
			if err := c(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		t.calls.Wait()
	}()
	r.check(t)
	return true
}

// Run checks every rule of package driver. It must not run beside other tests,
// because it looks for goroutines that are left over.
func Run(t *testing.T, b Backend) {
	checkConfig(t, b)
	url := ""
	if !b.Simulated {
		url = b.World(t).URL
	}
	noLeaks(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if reason, ok := b.Unsupported[r.name]; ok {
				t.Skipf("not supported: %s", reason)
			}
			if r.processes && url == "" {
				t.Skip("all clients of this backend are in one process")
			}
			variants := r.variants(url)
			if len(variants) == 1 {
				r.runIn(t, b, variants[0])
				return
			}
			for _, v := range variants {
				t.Run(v.name, func(t *testing.T) { r.runIn(t, b, v) })
			}
		})
	}
}

// runIn runs the rule beside others or alone, in real or in simulated time.
func (r rule) runIn(t *testing.T, b Backend, v variant) {
	if !r.alone {
		t.Parallel()
	}
	if b.Simulated {
		synctest.Test(t, func(t *testing.T) { r.run(t, b, v) })
	} else {
		r.run(t, b, v)
	}
}

func checkConfig(t *testing.T, b Backend) {
	t.Helper()
	if b.World == nil || b.TTL <= 0 {
		t.Fatal("drivertest: Backend needs World and TTL")
	}
	known := map[string]bool{}
	for _, r := range rules {
		known[r.name] = true
	}
	for name, reason := range b.Unsupported {
		if !known[name] {
			t.Errorf("drivertest: Unsupported names %q, which is no rule", name)
		}
		if reason == "" {
			t.Errorf("drivertest: Unsupported gives no reason for %s", name)
		}
	}
}

// Errorf fails the rule and goes on.
func (t *T) Errorf(format string, args ...any) {
	t.Helper()
	t.TB.Errorf(format+"\n%s", append(args, t.broken())...)
}

// Fatalf fails the rule and ends it. Only the rule's own goroutine may call it.
func (t *T) Fatalf(format string, args ...any) {
	t.Helper()
	t.TB.Fatalf(format+"\n%s", append(args, t.broken())...)
}

func (t *T) broken() string {
	var b strings.Builder
	b.WriteString("broken promise of package driver:")
	for _, s := range t.rule.says {
		b.WriteString("\n\t“" + s + "”")
	}
	return b.String()
}

// size returns a number of repetitions: fewer with -short.
func (t *T) size(n, short int) int {
	if testing.Short() || t.small {
		return short
	}
	return n
}

// parallel runs f n times at once and waits for all.
func (t *T) parallel(n int, f func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("client %d of %d: %v", i+1, n, err)
		}
	}
}

// eventually waits until cond is true.
func (t *T) eventually(what string, cond func() bool) {
	t.Helper()
	for !cond() {
		select {
		case <-t.ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// within returns a context for something that must not happen: it ends soon.
func (t *T) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, 50*time.Millisecond)
}

// driver opens another client of the world.
func (t *T) driver() driver.Driver {
	t.Helper()
	d, err := t.world.Open(t.ctx)
	if err != nil {
		t.Fatalf("open a driver: %v", err)
	}
	t.closers = append(t.closers, d.Close)
	return d
}
