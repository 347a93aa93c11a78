package mysqllock_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: while nobody is granted anything after a crash of a server that forgets, each try and each wait that ends
// says so and is ErrUnavailable, and inspection shows it. After a crash of one that does not, nothing is paused.
func TestWhoWaitsAfterACrashIsToldWhy(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]bool{"the server forgets": true, "as it is installed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []mysqltest.Option
			if forgets {
				opts = append(opts, mysqltest.Lazy())
			}
			s := mysqltest.Start(t, opts...)
			opened(t, s.URL())
			s.Do("SET GLOBAL innodb_flush_log_at_trx_commit = 1") // what is there by now is not forgotten
			const longest = 30 * time.Second
			s.Do("UPDATE interlock_meta SET longest = " + strconv.FormatInt(longest.Microseconds(), 10))
			if forgets {
				s.Do("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
			}
			c := errtest.Must(interlock.Open(t.Context(), s.URL()))(t)
			defer c.Close()
			held := errtest.Must(c.Mutex("nightly").Acquire(t.Context()))(t)
			began := time.Now()
			s.Kill()
			s.Restart()
			other := errtest.Must(interlock.Open(t.Context(), s.URL()))(t)
			defer other.Close()

			q, err := other.Admin().Queue(t.Context(), "nightly")
			if left := q.Paused.Sub(began); err != nil || q.Paused.IsZero() == forgets || forgets && (left < longest || left > longest+time.Minute) {
				t.Errorf("the crash was at %v: %+v, %v", began, q, err)
			}
			if !forgets {
				return
			}
			<-held.Done()
			_, try := other.Mutex("nightly").TryAcquire(t.Context())
			_, wait := other.Mutex("nightly", interlock.Wait(3*time.Second)).Acquire(t.Context())
			for what, err := range map[string]error{"a try": try, "Wait": wait} {
				if !errors.Is(err, interlock.ErrUnavailable) || errors.Is(err, interlock.ErrBusy) || !strings.Contains(err.Error(), "nothing is granted for another ") {
					t.Errorf("%s: %v", what, err)
				}
			}
			lease, err := other.Mutex("nightly").Acquire(t.Context())
			if err != nil || time.Since(began) < longest {
				t.Errorf("granted %v after the crash: %v", time.Since(began), err)
			}
			if err == nil {
				_ = lease.Release()
			}
		})
	}
}
