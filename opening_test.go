package interlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

var (
	errElects  = errors.New("the cluster elects a leader")
	notReady   atomic.Int64 // until this time, in nanoseconds, the server says that it is not ready
	silentThen atomic.Bool  // and then it does not answer
)

func init() {
	driver.Register("elects", func(ctx context.Context, u *driver.URL) (driver.Driver, error) {
		if time.Now().UnixNano() < notReady.Load() {
			return nil, driver.Passing(errElects)
		}
		if silentThen.Load() {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return memlock.New(), u.Check()
	})
}

// A server that says that it is not ready is asked again, for some seconds and not beyond the context; the error is what it said.
func TestOpenWaitsForAServerThatIsNotReady(t *testing.T) {
	for _, c := range []struct {
		name        string
		ready, time time.Duration // time is that of the context
		silent, ok  bool
	}{
		{"it is ready soon", 3 * time.Second, time.Minute, false, true},
		{"it stays so", time.Hour, time.Minute, false, false},
		{"there is less time", 3 * time.Second, time.Second, false, false},
		{"it does not answer then", time.Second, 2 * time.Second, true, false},
	} {
		simulated(t, func(t *testing.T) {
			began := time.Now()
			notReady.Store(began.Add(c.ready).UnixNano())
			silentThen.Store(c.silent)
			limited, cancel := context.WithTimeout(ctx, c.time)
			defer cancel()
			client, err := interlock.Open(limited, "elects:")
			took := time.Since(began)
			if c.ok {
				ok(t, err)
				ok(t, client.Close())
			} else {
				wantErr(t, err, errElects)
			}
			if most := min(c.time, 7*time.Second); took > most || c.ok && took < c.ready {
				t.Errorf("%s: after %v", c.name, took)
			}
		})
	}
}
