package suite

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// Promise: an attempt that tells nothing is made again, and after a rule that does not fail its suite has the last
// word.
func TestTry(t *testing.T) {
	checks, ends := 0, 0
	r := Rule[*Trial]{Name: "slow at first", Check: func(f *Trial) {
		if checks++; checks < 3 {
			f.Slow("this machine is slow")
		}
	}}
	r.Try(t, 3, func(int) (*Trial, *Trial) {
		f := r.Begin(t, "suite", false, time.Minute)
		f.AtEnd = func() { ends++ }
		return f, f
	})
	if checks != 3 || ends != 1 {
		t.Errorf("the rule was checked %d times, and its suite had the last word %d times; want 3 and 1", checks, ends)
	}
}

// Promise: what a rule has begun beside itself ends it, and whoever waits for that says nothing more.
func TestGo(t *testing.T) {
	tried := 0
	r := Rule[*Trial]{Name: "beside", Check: func(f *Trial) {
		if tried++; tried == 1 {
			f.Go(func() { f.Slow("this machine is slow") })()
			t.Error("the rule goes on after one that was too slow")
		}
		f.Together(func() {}, func() { f.Parallel(3, func(i int) { f.FatalIf(i == 1, "one has failed") }) })
		t.Error("the rule goes on after one that has failed")
	}}
	rec := &failures{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Try(rec, 2, func(int) (*Trial, *Trial) {
			f := r.Begin(rec, "suite", false, time.Minute)
			return f, f
		})
	}()
	<-done
	if tried != 2 || rec.fatal.Load() != 1 {
		t.Errorf("the rule was checked %d times, and failed with %d messages; want 2 and 1", tried, rec.fatal.Load())
	}
}

// failures counts those of a rule that is to fail.
type failures struct {
	testing.TB
	fatal atomic.Int32
}

func (r *failures) Fatalf(string, ...any) { r.fatal.Add(1); runtime.Goexit() }
func (r *failures) FailNow()              { runtime.Goexit() }
