package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/metrics"
)

func Example() {
	locks := metrics.New(metrics.Names(func(name string) string {
		kind, _, _ := strings.Cut(name, "/") // orders have too many numbers
		return kind
	}))
	c, err := interlock.Open(context.Background(), "mem:", locks.Option())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	http.Handle("/metrics", locks)

	_ = c.Mutex("order/17").Do(context.Background(), func(context.Context) error { return nil })

	answer := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.Contains(line, "_count") {
			fmt.Print(line)
		}
	}
	// Output:
	// interlock_acquire_wait_time_seconds_count{backend="mem",kind="mutex",name="order",outcome="acquired"} 1
	// interlock_hold_use_time_seconds_count{backend="mem",kind="mutex",name="order",outcome="released"} 1
}

func ExampleWriteQueues() {
	_ = metrics.WriteQueues(os.Stdout, []interlock.Queue{{
		Name:    "report",
		Kind:    "mutex",
		Holders: []interlock.Member{{Since: time.Now().Add(24 * time.Hour)}}, // by a clock that is ahead
	}})
	// Output:
	// # HELP interlock_lock_holders Who holds the lock now.
	// # TYPE interlock_lock_holders gauge
	// interlock_lock_holders{kind="mutex",name="report"} 1
	// # HELP interlock_lock_oldest_holder_age_seconds How long ago the oldest holder asked for the lock.
	// # TYPE interlock_lock_oldest_holder_age_seconds gauge
	// interlock_lock_oldest_holder_age_seconds{kind="mutex",name="report"} 0
	// # HELP interlock_lock_waiters Who waits for the lock now.
	// # TYPE interlock_lock_waiters gauge
	// interlock_lock_waiters{kind="mutex",name="report"} 0
	// # HELP interlock_lock_overruns Leases that were lost though the work under them goes on.
	// # TYPE interlock_lock_overruns gauge
	// interlock_lock_overruns{kind="mutex",name="report"} 0
	// # HELP interlock_locks_left_out Locks that are not shown, since there are too many.
	// # TYPE interlock_locks_left_out gauge
	// interlock_locks_left_out 0
}
