package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/busy"
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
	over   *time.Timer // names a rule that does not end

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
	t.TB.Fatalf(format+"%s\n%s", append(args, t.inVain(), t.broken())...)
}

// patience is for how long a rule waits for what must happen.
func (t *trial) patience() time.Duration {
	if t.Simulated {
		return cmp.Or(t.limit, limit)
	}
	return cmp.Or(t.limit, busy.Bound(limit))
}

// inVain says what a deadline that was exceeded means, if it is the rule's.
func (t *trial) inVain() string {
	if !errors.Is(t.ctx.Err(), context.DeadlineExceeded) {
		return ""
	}
	return fmt.Sprintf("\nthe rule has waited for it for %v, which is more than any backend needs", t.patience())
}

// state describes a queue in which something has not come.
func (t *trial) state(d driver.Driver, queue string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	q, err := d.Follow(ctx, queue, "")
	if err != nil {
		return fmt.Sprintf("; the queue %q cannot be read: %v", queue, err)
	}
	if len(q.Members) == 0 {
		return fmt.Sprintf("; the queue %q is empty", queue)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "; the queue %q of capacity %d:", queue, q.Capacity)
	for i, m := range q.Members {
		if i == 10 {
			fmt.Fprintf(&b, "\n\tand %d more", len(q.Members)-i)
			break
		}
		fmt.Fprintf(&b, "\n\t%s of %s, units %d, held %v, ends in %v, fixed %v", m.ID, m.Owner, m.Units, m.Held, m.Left, m.Fixed)
	}
	return b.String()
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
	t.ctx, t.cancel = context.WithTimeout(context.Background(), t.patience())
	t.watch()
}

// watch ends the test, with the name of the rule and all goroutines, if the rule goes on
// for long after its contexts have ended: a call does not mind them.
func (t *trial) watch() {
	if t.over != nil {
		t.over.Stop()
	}
	name := t.Name()
	t.over = time.AfterFunc(t.patience()+limit, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("drivertest: %s, the rule %s: a call goes on though its context has ended", name, t.rule.name))
	})
}

// whileProgress returns a context that ends when progress was not called for the limit.
func (t *trial) whileProgress() (ctx context.Context, progress func()) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	timer := time.AfterFunc(t.patience(), cancel)
	t.Cleanup(func() { timer.Stop() })
	return ctx, func() {
		timer.Reset(t.patience())
		t.over.Reset(t.patience() + limit)
	}
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
	if err := suite.Parallel("client", n, f); err != nil {
		t.Fatalf("%v", err)
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
