// Package ours makes contenders of Interlock itself, on whatever backend.
package ours

import (
	"context"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/bench/workload"
)

// All are the public API, without options and with two.
func All(url string) []workload.Contender {
	return AllAt(func(workload.Options) string { return url })
}

// AllAt asks for the URL of each client.
func AllAt(url func(workload.Options) string) []workload.Contender {
	all := []workload.Contender{
		contender(url, "interlock", "Acquire, Release"),
		contender(url, "interlock, StrictOrder", "no hand-over inside the process", interlock.StrictOrder()),
		contender(url, "interlock, Sticky", "keeps the lock until another client wants it", interlock.Sticky()),
	}
	all[0].Also, all[1].Also = []string{"W5", "W6", "W7"}, []string{"W5"}
	return all
}

func contender(url func(workload.Options) string, name, settings string, opts ...interlock.Option) workload.Contender {
	return workload.Contender{Name: name, Settings: settings, Ours: true,
		Open: func(ctx context.Context, o workload.Options) (workload.Client, error) {
			c, err := interlock.Open(ctx, url(o), interlock.TTL(o.TTL))
			if err != nil {
				return workload.Client{}, err
			}
			return workload.Client{
				Lock: func(name string) workload.Lock { return held(c.Mutex(name, opts...).Acquire) },
				Readers: func(name string) (read, write workload.Lock) {
					l := c.RWMutex(name, opts...)
					return held(l.Reader().Acquire), held(l.Writer().Acquire)
				},
				Slot: func(name string, permits int) workload.Lock {
					return held(c.Semaphore(name, int64(permits), opts...).Acquire)
				},
				Waiting: func(ctx context.Context, name string) (int, error) {
					q, err := c.Admin().Queue(ctx, name)
					return len(q.Waiters), err
				},
				Close: c.Close,
			}, nil
		}}
}

func held(acquire func(context.Context) (*interlock.Lease, error)) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		lease, err := acquire(ctx)
		if err != nil {
			return workload.Held{}, err
		}
		return workload.Held{Token: lease.Token(), Release: lease.Release}, nil
	}
}
