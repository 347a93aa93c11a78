package drivertest

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// limit bounds the waits of a rule for what must happen. It is far more than any
// backend needs, so that a busy machine breaks no rule.
const limit = time.Minute

// A trial is a rule under check: it fails with the sentence that was broken.
type trial struct {
	testing.TB
	Backend

	rule  rule
	shape shape
	world World

	ctx    context.Context // ends with the rule, or after the limit
	cancel context.CancelFunc

	closers []func() error
	calls   sync.WaitGroup
}

// Errorf fails the rule and goes on.
func (t *trial) Errorf(format string, args ...any) {
	t.Helper()
	t.TB.Errorf(format+"\n%s", append(args, t.broken())...)
}

// Fatalf fails the rule and ends it. Only the rule's own goroutine may call it.
func (t *trial) Fatalf(format string, args ...any) {
	t.Helper()
	t.TB.Fatalf(format+"\n%s", append(args, t.broken())...)
}

func (t *trial) broken() string {
	var b strings.Builder
	b.WriteString("broken promise of package driver:")
	for _, s := range t.rule.says {
		b.WriteString("\n\t“" + s + "”")
	}
	return b.String()
}

// allow gives the rule the whole limit, from now.
func (t *trial) allow() {
	if t.cancel != nil {
		t.cancel()
	}
	t.ctx, t.cancel = context.WithTimeout(context.Background(), cmp.Or(t.limit, limit))
}

// whileProgress returns a context that ends when progress was not called for the limit.
func (t *trial) whileProgress() (ctx context.Context, progress func()) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	patience := cmp.Or(t.limit, limit)
	timer := time.AfterFunc(patience, cancel)
	t.Cleanup(func() { timer.Stop() })
	return ctx, func() { timer.Reset(patience) }
}

// size returns a number of repetitions: fewer with -short, and under the race
// detector.
func (t *trial) size(n, short int) int {
	switch {
	case testing.Short() || t.Small:
		return short
	case slow:
		return max(short, n/3)
	}
	return n
}

// parallel runs f n times at once and waits for all.
func (t *trial) parallel(n int, f func(i int) error) {
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
func (t *trial) eventually(what string, cond func() bool) {
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
func (t *trial) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, 50*time.Millisecond)
}

// driver opens another client of the world.
func (t *trial) driver() driver.Driver {
	t.Helper()
	d, _ := t.guest()
	return d
}

// guest opens another client of the world, which may leave before the rule ends.
func (t *trial) guest() (d driver.Driver, leave func() error) {
	t.Helper()
	d, err := t.world.Open(t.ctx)
	if err != nil {
		t.Fatalf("open a driver: %v", err)
	}
	leave = sync.OnceValue(d.Close)
	t.closers = append(t.closers, leave)
	return d, leave
}

var errPaused = errors.New("paused")

// inTime gives up an attempt that came too late for an instant: what it saw then
// tells nothing about the backend.
func (t *trial) inTime(d driver.Driver, end driver.Instant) {
	if d.Now() >= end {
		panic(errPaused)
	}
}
