package etcd

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/interlock-go/interlock/bench/workload"
)

// openConcurrency makes clients of the package concurrency. Two mutexes of one session
// are the same one, so that each that holds or waits has a session.
func openConcurrency(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		c, err := connect(strings.TrimPrefix(url, "etcd://"))
		if err != nil {
			return workload.Client{}, err
		}
		var mu sync.Mutex
		var sessions []*concurrency.Session
		lock := func(name string) workload.Lock {
			var m *concurrency.Mutex
			return func(ctx context.Context) (h workload.Held, err error) {
				if m == nil {
					s, err := concurrency.NewSession(c, concurrency.WithTTL(int(o.TTL/time.Second)))
					if err != nil {
						return h, err
					}
					mu.Lock()
					sessions = append(sessions, s)
					mu.Unlock()
					m = concurrency.NewMutex(s, "/"+name)
				}
				if err := m.Lock(ctx); err != nil {
					return h, err
				}
				return workload.Held{Release: func() error { return m.Unlock(context.Background()) }}, nil
			}
		}
		end := func() error {
			mu.Lock()
			defer mu.Unlock()
			_ = workload.Together(len(sessions), 16, func(i int) error { return sessions[i].Close() })
			return c.Close()
		}
		return workload.Client{Lock: lock, Close: end}, nil
	}
}
