package redis

import (
	"context"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/interlock-go/interlock/bench/workload"
)

// openRedsync makes clients that give up only when their context ends; their default is 32 tries.
func openRedsync(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		opt, err := redis.ParseURL(url)
		if err != nil {
			return workload.Client{}, err
		}
		client := redis.NewClient(opt)
		rs := redsync.New(goredis.NewPool(client))
		return workload.Client{Close: client.Close, Lock: func(name string) workload.Lock {
			return func(ctx context.Context) (h workload.Held, err error) {
				m := rs.NewMutex(name, redsync.WithExpiry(o.TTL), redsync.WithTries(math.MaxInt32))
				if err := m.LockContext(ctx); err != nil {
					return h, err
				}
				return workload.Held{Release: func() error {
					_, err := m.Unlock()
					return err
				}}, nil
			}
		}}, nil
	}
}
