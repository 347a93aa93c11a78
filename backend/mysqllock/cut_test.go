package mysqllock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// without keeps back the last bytes of some answer of each connection, and all that would follow.
func without(t *testing.T, s *mysqltest.Server, last int, cuts func(answer int) bool) (url string) {
	t.Helper()
	filters := func() (requests, replies testserver.Filter) {
		n := 0
		return testserver.Pass, func(read []byte) testserver.Passed {
			if n++; cuts(n) && len(read) > last {
				return testserver.Passed{Bytes: read[:len(read)-last], Wait: make(chan struct{})}
			}
			return testserver.Passed{Bytes: read}
		}
	}
	p := errtest.Must(testserver.RunProxy(s.Addr, testserver.ProxyOptions{Filters: filters}))(t)
	t.Cleanup(p.Close)
	return strings.Replace(s.URL(), s.Addr, p.Addr, 1)
}

// inTime makes sure that a call ends soon after its context.
func inTime(t *testing.T, what string, call func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); call(ctx) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Errorf("%s: it waits for the end of an answer, past its context", what)
	}
}

func swap(ctx context.Context, d driver.Driver, n int) error {
	_, err := d.Swap(ctx, driver.Swap{ID: fmt.Sprintf("%032x", n), Name: fmt.Sprint("v", n)})
	return err
}

// Promise: an answer whose end never comes holds nobody past his context.
func TestAnAnswerWithoutItsEnd(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	opened(t, s.URL())
	var all sync.WaitGroup
	for from := 1; from <= 12; from++ {
		for _, last := range []int{1, 5, 20} {
			url := without(t, s, last, func(answer int) bool { return answer >= from })
			all.Go(func() {
				inTime(t, fmt.Sprintf("without the last %d bytes of answer %d", last, from), func(ctx context.Context) {
					d, err := open(ctx, url)
					if err == nil {
						_ = swap(ctx, d, 100*from+last)
						d.Close()
					}
				})
			})
		}
	}
	all.Wait()
}

// Promise: connections over which the end of an answer never comes are given up.
func TestConnectionsWithoutTheEndOfAnAnswer(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	var on atomic.Bool
	d := errtest.Must(open(t.Context(), without(t, s, 5, func(int) bool { return on.Load() })))(t)
	on.Store(true)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() { inTime(t, "a call", func(ctx context.Context) { _ = swap(ctx, d, n) }) })
	}
	all.Wait()
	on.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(30*time.Second))
	defer cancel()
	errtest.Is(t, swap(ctx, d, 20), nil)
	inTime(t, "Close", func(context.Context) { d.Close() })
}
