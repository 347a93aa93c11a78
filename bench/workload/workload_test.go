package workload_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
)

const waiters = 100

func run(t *testing.T, name string, c workload.Contender) workload.Result {
	t.Helper()
	for _, w := range workload.All() {
		if w.Name == name {
			return w.Run(t.Context(), c, workload.Env{Time: 50 * time.Millisecond, Limit: 30 * time.Second, Waiters: waiters})
		}
	}
	t.Fatalf("no workload %s", name)
	return workload.Result{}
}

func TestOurLockDoesNothingWrong(t *testing.T) {
	for _, c := range ours.All("mem:bench") {
		for _, w := range workload.All() {
			if !w.Takes(c) {
				continue
			}
			t.Run(w.Name+"/"+c.Name, func(t *testing.T) {
				r := run(t, w.Name, c)
				if _, known := r.Figures[w.Figures[0]]; r.Bad() || !known {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// fake is a lock of the simplest kind, which can be told to be wrong.
type fake struct {
	bad     string
	freed   chan struct{} // ends what hangs
	mu      sync.Mutex
	free    map[string]chan struct{}
	waiting atomic.Int64
	last    atomic.Uint64 // token
}

func (f *fake) open(context.Context, workload.Options) (workload.Client, error) {
	return workload.Client{
		Lock:    f.lock,
		Readers: func(name string) (read, write workload.Lock) { return f.crowd, f.lock(name) },
		Slot:    func(name string, _ int) workload.Lock { return f.permit(name) },
		Waiting: func(context.Context, string) (int, error) { return int(f.waiting.Load()), nil },
		Close:   func() error { return nil },
	}, nil
}

func (f *fake) lock(name string) workload.Lock {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := f.free[name]
	if free == nil {
		free = make(chan struct{}, 1)
		free <- struct{}{}
		f.free[name] = free
	}
	warm := strings.Contains(name, "/warm")
	return func(ctx context.Context) (h workload.Held, err error) {
		f.waiting.Add(1)
		defer f.waiting.Add(-1)
		if f.bad == "hangs" && !warm {
			<-f.freed
		}
		select {
		case <-free:
		case <-ctx.Done():
			return h, ctx.Err()
		}
		h.Token = f.last.Add(1)
		if f.bad == "token" {
			h.Token = 7
		}
		h.Release = func() error {
			switch {
			case f.bad == "forgets" && !warm:
				return nil // nobody is woken
			case f.bad == "lost":
				return errors.New("lost")
			}
			free <- struct{}{}
			return nil
		}
		return h, nil
	}
}

// crowd lets everybody in.
func (f *fake) crowd(context.Context) (workload.Held, error) {
	return workload.Held{Release: func() error { return nil }}, nil
}

// permit lets one in at a time, which is fewer than may, or everybody.
func (f *fake) permit(name string) workload.Lock {
	if f.bad == "crowd" {
		return f.crowd
	}
	return f.lock(name)
}

func TestMistakesAreSeen(t *testing.T) {
	for _, test := range []struct {
		bad, workload string
		seen          func(r workload.Result) bool
	}{
		{"", "W4", func(r workload.Result) bool { return !r.Bad() }},
		{"", "W5", func(r workload.Result) bool { return !r.Bad() }},
		{"token", "W4", func(r workload.Result) bool { return len(r.Wrong) > 0 }},
		{"token", "W5", func(r workload.Result) bool { return len(r.Wrong) > 0 }},
		{"forgets", "W5", func(r workload.Result) bool { return r.Stuck == "100 of 100" }},
		{"crowd", "W6", func(r workload.Result) bool { return len(r.Wrong) > 0 }},
		{"", "W7", func(r workload.Result) bool { return !r.Bad() }},
		{"crowd", "W7", func(r workload.Result) bool { return len(r.Wrong) > 0 }},
		{"", "W10", func(r workload.Result) bool { return !r.Bad() }},
		{"lost", "W1", func(r workload.Result) bool { return r.Failed != "" }},
		{"hangs", "W1", func(r workload.Result) bool { return strings.HasPrefix(r.Failed, "it was not through after ") }},
	} {
		t.Run(test.workload+"/"+test.bad, func(t *testing.T) {
			check := func(t *testing.T) {
				f := &fake{bad: test.bad, freed: make(chan struct{}), free: map[string]chan struct{}{}}
				defer close(f.freed)
				r := run(t, test.workload, workload.Contender{Name: "fake", Open: f.open})
				if !test.seen(r) {
					t.Errorf("%+v", r)
				}
			}
			if test.bad == "forgets" || test.bad == "hangs" { // which somebody waits for until the limit
				synctest.Test(t, check)
			} else {
				check(t)
			}
		})
	}
}
