//go:build linux

package browsertest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/ui"
)

// sent is what a server has sent so far, in bytes.
func sent(t *testing.T, s *redistest.Server) int {
	t.Helper()
	info := errtest.Must(s.Do("INFO", "stats"))(t)
	for line := range strings.Lines(fmt.Sprint(info)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "total_net_output_bytes:"); ok {
			bytes, _ := strconv.Atoi(n)
			return bytes
		}
	}
	t.Fatal("the server does not say what it has sent")
	return 0
}

// Promise: with 10,000 locks and 1,000 waiters for one of them, a page has 50 rows, a lock 100 of its queue, the
// backend is read for a tenth of the time at most, however many look, and not at all when all have gone.
func TestManyLocks(t *testing.T) {
	server := redistest.Start(t)
	open := func(opts ...interlock.ClientOption) *interlock.Client {
		c := errtest.Must(interlock.Open(t.Context(), server.URL()+"?ttl=1m", opts...))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	workers, looks := open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for part := range 20 {
		all.Go(func() {
			for i := range 500 {
				if _, err := workers.Mutex(fmt.Sprintf("job/%05d", 500*part+i)).Acquire(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for range 1000 {
		all.Go(func() { _, _ = workers.Mutex("job/00500", interlock.StrictOrder()).Acquire(ctx) })
	}
	page := httptest.NewServer(ui.New(looks, ui.Config{}))
	t.Cleanup(page.Close)
	first, second := newTab(t, 1280, 800), newTab(t, 1280, 800)
	for _, b := range []tab{first, second} {
		b.do("open", chromedp.Navigate(page.URL))
		b.becomes("all wait", `document.querySelector(".cards .warn dd") && document.querySelector(".cards .warn dd").innerText == "1000"`)
		b.sees("1 to 50 of 10000")
		if n := eval[int](b, `document.querySelectorAll("tbody tr").length`); n != 50 {
			t.Errorf("%d rows", n)
		}
	}
	asked, bytes, began := looks.Admin().Exchanges(), sent(t, server), time.Now()
	time.Sleep(3 * time.Second) // what is measured
	took := time.Since(began).Seconds()
	t.Logf("two pages: %.1f exchanges and %.0f kB a second, of the backend; %s", float64(looks.Admin().Exchanges()-asked)/took,
		float64(sent(t, server)-bytes)/1000/took, eval[string](first, `document.querySelector(".cost").innerText`))
	listed := eval[float64](first, `performance.getEntriesByType("resource").filter(e => e.initiatorType == "fetch").map(e => e.duration).reduce((a, b) => Math.max(a, b), 0)`)
	t.Logf("a page comes within %.0f ms", listed)
	first.click("a", "job/00500")
	first.sees("1 to 100 of 1000")
	if n := eval[int](first, `document.querySelectorAll("tbody tr").length`); n > 102 {
		t.Errorf("%d rows of one lock", n)
	}
	for _, b := range []tab{first, second} {
		b.do("leave", chromedp.Navigate("about:blank"))
	}
	busy.Until(t, "nothing is asked in a second, since no page is open", func() bool {
		asked = looks.Admin().Exchanges()
		time.Sleep(time.Second)
		return looks.Admin().Exchanges() == asked
	})
}
