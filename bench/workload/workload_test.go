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

// still is a server of which nothing is asked.
type still struct{ commands float64 }

func (s *still) URL() string     { return "mem:bench" }
func (s *still) About() []string { return nil }
func (s *still) Close() error    { return nil }

func (s *still) Clear(context.Context) error { return nil }

func (s *still) Usage(context.Context) (workload.Usage, error) {
	s.commands += 1000
	return workload.Usage{Commands: s.commands}, nil
}

func run(t *testing.T, name string, c workload.Contender) workload.Result {
	t.Helper()
	for _, w := range workload.All() {
		if w.Name == name {
			return w.Run(t.Context(), c, workload.Env{
				Backend: "test", Server: &still{}, Time: 50 * time.Millisecond, Limit: 30 * time.Second,
				Grace: time.Minute, Leases: 10,
				Waiters: 100, Clients: 100,
			})
		}
	}
	t.Fatalf("no workload %s", name)
	return workload.Result{}
}

func TestOurLockDoesNothingWrong(t *testing.T) {
	for _, c := range ours.All("mem:bench") {
		for _, w := range []string{"W1", "W2", "W3", "W4", "W4-hold", "W5"} {
			if !strings.Contains(" "+strings.Join(c.Takes, " ")+" ", " "+w+" ") {
				continue
			}
			t.Run(w+"/"+c.Name, func(t *testing.T) {
				r := run(t, w, c)
				if r.Bad() || len(r.Figures) == 0 {
					t.Errorf("%+v", r)
				}
				if w == "W5" && len(r.Checked) == 0 {
					t.Error("the order was not looked at")
				}
			})
		}
	}
}

// fake is a lock of the simplest kind, which can be told to be wrong.
type fake struct {
	mu   sync.Mutex
	free map[string]chan struct{}
	bad  string
	last atomic.Uint64 // token
}

func (f *fake) Open(context.Context, workload.Options) (workload.Client, error) { return f, nil }
func (f *fake) Close() error                                                    { return nil }

func (f *fake) Lock(name string) workload.Lock {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := f.free[name]
	if free == nil {
		free = make(chan struct{}, 1)
		free <- struct{}{}
		f.free[name] = free
	}
	return func(ctx context.Context) (workload.Held, error) {
		select {
		case <-free:
			return &fakeHeld{f: f, name: name, free: free}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type fakeHeld struct {
	f    *fake
	name string
	free chan struct{}
}

func (h *fakeHeld) Token() uint64 {
	if h.f.bad == "token" {
		return 7
	}
	return h.f.last.Add(1)
}

func (h *fakeHeld) Release() error {
	switch {
	case h.f.bad == "forgets" && !strings.Contains(h.name, "/warm"):
		return nil // nobody is woken
	case h.f.bad == "lost":
		return errors.New("lost")
	}
	h.free <- struct{}{}
	return nil
}

func TestMistakesAreSeen(t *testing.T) {
	for _, test := range []struct {
		bad, workload string
		seen          func(r workload.Result) bool
	}{
		{"", "W4", func(r workload.Result) bool { return !r.Bad() }},
		{"", "W5", func(r workload.Result) bool { return !r.Bad() && r.Figures["drained"] == 100 }},
		{"token", "W4", func(r workload.Result) bool { return len(r.Wrong) > 0 }},
		{"forgets", "W5", func(r workload.Result) bool { return r.Stuck == "100 of 100" }},
		{"lost", "W1", func(r workload.Result) bool { return r.Failed != "" }},
	} {
		t.Run(test.workload+"/"+test.bad, func(t *testing.T) {
			check := func(t *testing.T) {
				f := &fake{free: map[string]chan struct{}{}, bad: test.bad}
				r := run(t, test.workload, workload.Contender{Name: "fake", Open: f.Open})
				if !test.seen(r) {
					t.Errorf("%+v", r)
				}
			}
			if test.workload == "W5" { // in which somebody may wait until the limit
				synctest.Test(t, check)
			} else {
				check(t)
			}
		})
	}
}
