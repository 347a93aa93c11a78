package redis

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/interlock-go/interlock/bench/workload"
)

// openRedislock makes clients that try again every so often, for ever.
func openRedislock(url string, every time.Duration) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		opt, err := redis.ParseURL(url)
		if err != nil {
			return workload.Client{}, err
		}
		client := redis.NewClient(opt)
		locks := redislock.New(client)
		return workload.Client{Close: client.Close, Lock: func(name string) workload.Lock {
			return func(ctx context.Context) (h workload.Held, err error) {
				ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it gives up after one TTL
				defer cancel()
				l, err := locks.Obtain(ctx, name, o.TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(every)})
				if err != nil {
					return h, err
				}
				return workload.Held{Release: func() error { return l.Release(context.Background()) }}, nil
			}
		}}, nil
	}
}
