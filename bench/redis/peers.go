package redis

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/interlock-go/interlock/bench/workload"
)

// newGoRedis makes a client of go-redis with its defaults.
func newGoRedis(url string) (*redis.Client, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(opt), nil
}

// redsyncClient gives up only when its context ends; its default is 32 tries.
type redsyncClient struct {
	pool *redis.Client
	rs   *redsync.Redsync
	ttl  time.Duration
}

func openRedsync(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		pool, err := newGoRedis(url)
		if err != nil {
			return nil, err
		}
		return redsyncClient{pool, redsync.New(goredis.NewPool(pool)), o.TTL}, nil
	}
}

func (c redsyncClient) Close() error { return c.pool.Close() }

func (c redsyncClient) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		m := c.rs.NewMutex(name, redsync.WithExpiry(c.ttl), redsync.WithTries(math.MaxInt32))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return redsyncHeld{m}, nil
	}
}

type redsyncHeld struct{ m *redsync.Mutex }

func (h redsyncHeld) Release() error {
	ok, err := h.m.Unlock()
	return lost(ok, err)
}

func (h redsyncHeld) Renew(ctx context.Context) error {
	ok, err := h.m.ExtendContext(ctx)
	return lost(ok, err)
}

func lost(ok bool, err error) error {
	if err == nil && !ok {
		return errGone
	}
	return err
}

// redislockClient tries again every so often, for ever.
type redislockClient struct {
	client *redis.Client
	lock   *redislock.Client
	ttl    time.Duration
	every  redislock.RetryStrategy
}

func openRedislock(url string, every time.Duration) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		client, err := newGoRedis(url)
		if err != nil {
			return nil, err
		}
		return redislockClient{client, redislock.New(client), o.TTL, redislock.LinearBackoff(every)}, nil
	}
}

func (c redislockClient) Close() error { return c.client.Close() }

func (c redislockClient) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it gives up after one TTL
		defer cancel()
		l, err := c.lock.Obtain(ctx, name, c.ttl, &redislock.Options{RetryStrategy: c.every})
		if err != nil {
			return nil, err
		}
		return redislockHeld{l, c.ttl}, nil
	}
}

type redislockHeld struct {
	l   *redislock.Lock
	ttl time.Duration
}

func (h redislockHeld) Release() error { return h.l.Release(context.Background()) }

func (h redislockHeld) Renew(ctx context.Context) error { return h.l.Refresh(ctx, h.ttl, nil) }

// rueidislockClient renews what it holds by itself.
type rueidislockClient struct{ locker rueidislock.Locker }

func openRueidislock(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		opt, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		smaller(&opt, o)
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: opt, KeyValidity: o.TTL})
		if err != nil {
			return nil, err
		}
		return rueidislockClient{locker}, nil
	}
}

func (c rueidislockClient) Close() error {
	c.locker.Close()
	return nil
}

func (c rueidislockClient) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		held, cancel, err := c.locker.WithContext(ctx, name)
		if err != nil {
			return nil, err
		}
		return rueidislockHeld{held, cancel}, nil
	}
}

type rueidislockHeld struct {
	ctx    context.Context // ends when the lock is lost
	cancel context.CancelFunc
}

// Release cannot fail; a lock that was lost meanwhile is all that can be seen.
func (h rueidislockHeld) Release() error {
	err := h.ctx.Err()
	h.cancel()
	if err != nil {
		return errors.Join(errGone, err)
	}
	return nil
}
