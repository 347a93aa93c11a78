package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/interlock-go/interlock/lab/history"
)

// Libraries are locks of others, used as their documentation shows it: what the lab finds in them shows that it finds
// things. Each returns what releases the lock.
var Libraries = map[string]func(url string, ttl time.Duration) func(ctx context.Context, name string) (func() error,
	error){
	"redislock": func(url string, ttl time.Duration) func(context.Context, string) (func() error, error) {
		locks := redislock.New(goRedis(url))
		return func(ctx context.Context, name string) (func() error, error) {
			retry := redislock.LinearBackoff(10 * time.Millisecond)
			l, err := locks.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: retry})
			if err != nil {
				return nil, err
			}
			return func() error { return l.Release(context.Background()) }, nil
		}
	},
	"redsync": func(url string, ttl time.Duration) func(context.Context, string) (func() error, error) {
		locks := redsync.New(goredis.NewPool(goRedis(url)))
		return func(ctx context.Context, name string) (func() error, error) {
			m := locks.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1000),
				redsync.WithRetryDelay(10*time.Millisecond))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error {
				ok, err := m.Unlock()
				if !ok && err == nil {
					err = errors.New("it was not held any more")
				}
				return err
			}, nil
		}
	},
}

func goRedis(url string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(url, "redis://")})
}

// libraryMutex holds a lock of a library, and believes in it until it releases it: there is nothing that would tell.
func libraryMutex(acquire func(context.Context, string) (func() error, error)) Workload {
	return Workload{Name: "mutex", Step: func(e *Env) {
		name := e.name("mutex")
		e.n++
		e.event(history.Event{Kind: history.Invoke, Op: "acquire", Object: name, Units: 1, Cap: 1})
		ctx, cancel := context.WithTimeout(e.Stopped, 5*e.TTL)
		defer cancel()
		release, err := acquire(ctx, name)
		if err != nil {
			e.event(history.Event{Kind: history.Failed, Op: "acquire", Object: name, Err: short(err)})
			return
		}
		e.event(history.Event{Kind: history.OK, Op: "acquire", Object: name, Units: 1, Cap: 1})
		e.progress()
		if time.Sleep(time.Duration(e.Int64N(int64(4 * time.Millisecond)))); e.IntN(50) == 0 {
			time.Sleep(time.Duration(e.Int64N(3 * int64(e.TTL) / 2)))
		}
		e.event(history.Event{Kind: history.Release, Object: name, Alive: true})
		ended := history.Event{Kind: history.Ended, Object: name}
		if err := release(); err != nil {
			ended.Err = short(err)
		}
		e.event(ended)
	}}
}
