package workload_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
)

// stubborn is a contender of which one call never ends by itself, whatever becomes of
// its context.
type stubborn struct {
	fake
	at      string // Open, Lock, Release or Close
	after   int    // so many calls come to an end; of Close none, if it is the one
	heeds   bool   // the close of its client ends the call
	freed   chan struct{}
	free    func()
	inCalls sync.Mutex
}

func newStubborn(at string, after int) *stubborn {
	s := &stubborn{fake: fake{free: map[string]chan struct{}{}}, at: at, after: after, freed: make(chan struct{})}
	s.free = sync.OnceFunc(func() { close(s.freed) })
	return s
}

// end lets everything that hangs come to an end.
func (s *stubborn) end() {
	s.free()
	time.Sleep(10 * time.Minute)
}

func (s *stubborn) hang(at string) {
	s.inCalls.Lock()
	if at == s.at {
		s.after--
	}
	hangs := at == s.at && (s.after < 0 || at == "Close")
	s.inCalls.Unlock()
	if hangs {
		<-s.freed
	}
}

func (s *stubborn) Open(ctx context.Context, o workload.Options) (workload.Client, error) {
	s.hang("Open")
	return s, nil
}

func (s *stubborn) Close() error {
	if s.heeds {
		s.free()
	}
	s.hang("Close")
	return nil
}

func (s *stubborn) Lock(name string) workload.Lock {
	lock := s.fake.Lock(name)
	return func(ctx context.Context) (workload.Held, error) {
		s.hang("Lock")
		h, err := lock(ctx)
		return stubbornHeld{h, s}, err
	}
}

type stubbornHeld struct {
	workload.Held
	s *stubborn
}

func (h stubbornHeld) Token() uint64 { return h.Held.(*fakeHeld).Token() }

func (h stubbornHeld) Release() error {
	h.s.hang("Release")
	return h.Held.Release()
}

// Promise: a contender that comes to no end is left behind after a while, is reported as
// hung, and what it did wrong before counts.
func TestAContenderThatHangsIsLeftBehind(t *testing.T) {
	for _, test := range []struct {
		workload, at string
		after        int
	}{
		{"W1", "Open", 0}, {"W1", "Lock", 0}, {"W8", "Lock", 7}, {"W4-hold", "Lock", 50}, {"W4-hold", "Release", 50},
		{"W4-hold", "Close", 100}, {"W5", "Lock", 200}, {"W5", "Release", 150},
	} {
		for _, bad := range []string{"", "token"} {
			t.Run(test.workload+"/"+test.at+"/"+bad, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStubborn(test.at, test.after)
					s.bad = bad
					defer s.end()
					began := time.Now()
					r := run(t, test.workload, workload.Contender{Name: "stubborn", Open: s.Open})
					if !strings.HasPrefix(r.Hung, "it was not through after ") || r.Finished() || len(r.Figures) > 0 {
						t.Errorf("%+v", r)
					}
					if time.Since(began) > 5*time.Minute {
						t.Errorf("the next one began after %v", time.Since(began))
					}
					if wrong := bad != "" && test.after >= 50; wrong != (len(r.Wrong) > 0) {
						t.Errorf("the mistakes of a run that hung: %q", r.Wrong)
					}
					if m := workload.Median([]workload.Result{{Figures: map[string]float64{"a": 1}}, r}); m.Hung == "" || m.Figures["a"] != 1 {
						t.Errorf("in one of two turns: %+v", m)
					}
				})
			})
		}
	}
}

// Promise: the clients of a contender that hangs are closed.
func TestWhoHangsIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStubborn("Lock", 50)
		s.heeds = true
		r := run(t, "W4-hold", workload.Contender{Name: "stubborn", Open: s.Open})
		synctest.Wait()
		select {
		case <-s.freed:
		default:
			t.Error("they are open")
		}
		if r.Hung == "" {
			t.Errorf("%+v", r)
		}
		s.end()
	})
}
