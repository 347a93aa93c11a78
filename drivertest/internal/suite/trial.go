package suite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// Limit bounds the waits of a rule for what must happen. It is far more than any
// backend needs, so that a busy machine breaks no rule.
const Limit = time.Minute

// Patience is for how long a rule waits for what must happen: longer while other tests run.
func Patience(simulated bool) time.Duration {
	if simulated {
		return Limit
	}
	return busy.Bound(Limit)
}

// A Trial is a rule under check: it fails with the promise that was broken. Its exported methods that may end the
// rule are for the rule's own goroutine, and for the ones that Go, Parallel and Together begin.
type Trial struct {
	testing.TB
	Ctx      context.Context // ends with the rule, or when its patience does
	Calls    sync.WaitGroup  // go on beside the rule
	Patience time.Duration
	About    func() string // begins each failure with the step of a table or a loop, say; nil: nothing
	AtEnd    func()        // runs after a rule that did not fail

	simulated bool
	promise   string
	cancel    context.CancelFunc
	over      *time.Timer // names a rule that does not end

	mu      sync.Mutex
	closers []func()
}

// tooSlow is what a rule panics with when what it saw tells nothing.
type tooSlow string

// Try has the rule tried until an attempt tells something, which it may not do while this machine or the backend is
// slow. An attempt begins a trial, of the package that gives the promise, and returns it with the trial of the suite.
func (r Rule[T]) Try(tb testing.TB, attempts int, attempt func(n int) (*Trial, T)) {
	tb.Helper()
	for n := range attempts {
		why := r.try(tb, func() (*Trial, T) { return attempt(n) })
		if why == "" {
			return
		}
		tb.Logf("%s; again", why)
	}
	tb.Fatalf("this machine is too slow: %d attempts", attempts)
}

func (r Rule[T]) try(tb testing.TB, attempt func() (*Trial, T)) (why tooSlow) {
	tb.Helper()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case tooSlow:
			why = p
		default:
			panic(p)
		}
	}()
	t, of := attempt()
	defer func() {
		t.cancel()
		t.watch(0) // drivers are closed in time, too
		defer t.over.Stop()
		for _, end := range slices.Backward(t.closers) {
			end()
		}
		t.Calls.Wait()
	}()
	if r.Check(of); t.AtEnd != nil && !t.Failed() {
		t.AtEnd()
	}
	return ""
}

// Begin begins a trial of the rule, whose promise is given by the package.
func (r Rule[T]) Begin(tb testing.TB, by string, simulated bool, patience time.Duration) *Trial {
	t := &Trial{TB: tb, Patience: patience, simulated: simulated, promise: "broken promise of package " + by + ":"}
	for _, s := range r.Says {
		t.promise += "\n\t“" + s + "”"
	}
	t.Allow(0)
	return t
}

// Slow gives up an attempt whose result tells nothing, since this machine or the
// backend was too slow for it. In simulated time nothing is slow.
func (t *Trial) Slow(format string, args ...any) {
	t.Helper()
	if t.simulated {
		t.Fatalf(format, args...)
	}
	panic(tooSlow(fmt.Sprintf(format, args...)))
}

// Errorf fails the rule and goes on.
func (t *Trial) Errorf(format string, args ...any) {
	t.Helper()
	t.TB.Errorf("%s\n%s%s", t.text(format, args), t.promise, Step())
}

func (t *Trial) text(format string, args []any) string {
	if t.About != nil {
		return t.About() + fmt.Sprintf(format, args...)
	}
	return fmt.Sprintf(format, args...)
}

// Step is the line of the rule that has called, by itself or by helpers.
func Step() (text string) {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for f, more := frames.Next(); more && !strings.Contains(f.Function, "suite.Rule["); f, more = frames.Next() {
		if strings.Contains(f.Function, "/drivertest") && !strings.Contains(f.Function, "/suite.") {
			text = fmt.Sprintf("\n\tat %s:%d", filepath.Base(f.File), f.Line)
		}
	}
	return text
}

// Fatalf fails the rule and ends it.
func (t *Trial) Fatalf(format string, args ...any) {
	t.Helper()
	inVain := ""
	if errors.Is(t.Ctx.Err(), context.DeadlineExceeded) {
		inVain = fmt.Sprintf("\nthe rule has waited for it for %v, which is more than any backend needs", t.Patience)
	}
	t.TB.Fatalf("%s%s\n%s%s", t.text(format, args), inVain, t.promise, Step())
}

// FatalIf fails the rule and ends it if what is said is so.
func (t *Trial) FatalIf(so bool, format string, args ...any) {
	t.Helper()
	if so {
		t.Fatalf(format, args...)
	}
}

// OK fails the rule if there is an error of what is said.
func (t *Trial) OK(err error, what string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// Is fails the rule unless the error of what is said is the one that is wanted.
func (t *Trial) Is(err, want error, what string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got the error %v, not %v", fmt.Sprintf(what, args...), err, want)
	}
}

// Err is the error of a call.
func Err[V any](_ V, err error) error { return err }

// Unless is the error, or none if it is the one that is allowed.
func Unless(err, allowed error) error {
	if errors.Is(err, allowed) {
		return nil
	}
	return err
}

// Of is the error of a call that is to fail. Without an error it says what was returned.
func Of[V any](v V, err error) error {
	if err == nil {
		return fmt.Errorf("none, but %+v", v)
	}
	return err
}

// Allow gives the rule its patience, and more, from now.
func (t *Trial) Allow(more time.Duration) {
	if t.cancel != nil {
		t.cancel()
	}
	t.Ctx, t.cancel = context.WithTimeout(context.Background(), t.Patience+more)
	t.watch(more)
}

// watch ends the test, with its name and all goroutines, if the rule goes on
// for long after its contexts have ended: a call does not mind them.
func (t *Trial) watch(more time.Duration) {
	if t.over != nil {
		t.over.Stop()
	}
	name := t.Name()
	t.over = time.AfterFunc(t.Patience+more+Limit, func() {
		debug.SetTraceback("all")
		panic(name + ": a call goes on though its context has ended\n" + t.promise)
	})
}

// WhileProgress returns a context that ends when progress was not called for as long as the rule is patient.
func (t *Trial) WhileProgress() (ctx context.Context, progress func()) {
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(t.Patience, cancel)
	t.Cleanup(func() { timer.Stop(); cancel() })
	return ctx, func() {
		timer.Reset(t.Patience)
		t.over.Reset(t.Patience + Limit)
	}
}

// Later has something done when the rule ends, before what was given to it sooner.
func (t *Trial) Later(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closers = append(t.closers, f)
}

// Go runs f beside the rule. It may end the rule, as the rule's own goroutine does: wait, which waits for its end,
// ends the rule then, too.
func (t *Trial) Go(f func()) (wait func()) {
	over := make(chan any, 1)
	t.Calls.Go(func() {
		var p any = ended{}
		defer func() {
			if r := recover(); r != nil {
				p = r.(tooSlow)
			}
			over <- p
		}()
		f()
		p = nil
	})
	return func() {
		t.Helper()
		switch p := (<-over).(type) {
		case ended:
			t.FailNow()
		case tooSlow:
			panic(p)
		}
	}
}

// ended is what has become of a function that has ended the rule.
type ended struct{}

// Done runs a call beside the rule.
func (t *Trial) Done(call func() error) <-chan error {
	c := make(chan error, 1)
	t.Calls.Go(func() { c <- call() })
	return c
}

// Parallel runs f n times at once and waits for all, as Go does for one.
func (t *Trial) Parallel(n int, f func(i int)) {
	t.Helper()
	all := make([]func(), n)
	for i := range n {
		all[i] = t.Go(func() { f(i) })
	}
	for _, wait := range all {
		wait()
	}
}

// Together runs the functions at once, like Parallel.
func (t *Trial) Together(fs ...func()) {
	t.Helper()
	t.Parallel(len(fs), func(i int) { fs[i]() })
}

// Eventually waits until cond is true; the rest says what is there instead.
func (t *Trial) Eventually(what string, cond func() bool, instead ...func() string) {
	t.Helper()
	for !cond() {
		select {
		case <-t.Ctx.Done():
			for _, f := range instead {
				what += "; instead " + f()
			}
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
