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

// acquire acquires a lock of others, and returns what releases it.
type acquire = func(ctx context.Context, name string) (release func() error, err error)

// Libraries are locks of others, used as their documentation shows it: what the lab finds in them shows that it finds
// things.
var Libraries = map[string]func(c *redis.Client, ttl time.Duration) acquire{
	"redislock": func(c *redis.Client, ttl time.Duration) acquire {
		locks := redislock.New(c)
		retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
		return func(ctx context.Context, name string) (func() error, error) {
			l, err := locks.Obtain(ctx, name, ttl, retry)
			return func() error { return l.Release(context.Background()) }, err
		}
	},
	"redsync": func(c *redis.Client, ttl time.Duration) acquire {
		locks := redsync.New(goredis.NewPool(c))
		return func(ctx context.Context, name string) (func() error, error) {
			m := locks.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1000),
				redsync.WithRetryDelay(10*time.Millisecond))
			release := func() error {
				ok, err := m.Unlock()
				if !ok && err == nil {
					err = errors.New("it was not held any more")
				}
				return err
			}
			return release, m.LockContext(ctx)
		}
	},
}

// libraryMutex holds a lock of a library, and believes in it until it releases it: there is nothing that would tell.
func libraryMutex(library, url string, ttl time.Duration) Workload {
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(url, "redis://")})
	acquire := Libraries[library](client, ttl)
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
		e.event(history.Event{Kind: history.Ended, Object: name, Err: short(release())})
	}}
}
