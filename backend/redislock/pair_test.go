package redislock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/redistest"
)

// pair is the plain lock of many programs: one script takes the key, and one gives
// it back if it is still the caller's.
type pair struct {
	t   *testing.T
	s   *redistest.Server
	key string
}

const (
	take     = `if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0`
	giveBack = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

func (p pair) run(script string, args ...string) (bool, error) {
	v, err := p.s.Do(append([]string{"EVAL", script, "1", p.key}, args...)...)
	return v == int64(1), err
}

func (p pair) take(owner string, ttl time.Duration) (bool, error) {
	return p.run(take, owner, fmt.Sprint(ttl.Milliseconds()))
}

func (p pair) giveBack(owner string) (bool, error) { return p.run(giveBack, owner) }

// Promise: on one key, the plain lock of two Lua scripts and the locks of this package
// exclude each other: of thirty contenders, half of them with each, none draws the
// order number of another, everybody gets one, and the key is free afterwards.
func TestThirtyContendersHalfOfThemWithTwoLuaScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open := opener(t, s.URL(), interlock.TTL(time.Minute))
	a, b := open(), open()
	for name, get := range map[string]func(*interlock.Client) *interlock.Lock{
		"mutex":  func(c *interlock.Client) *interlock.Lock { return c.Mutex("mutex") },
		"strict": func(c *interlock.Client) *interlock.Lock { return c.Mutex("strict", interlock.StrictOrder()) },
		"writer": func(c *interlock.Client) *interlock.Lock { return c.RWMutex("writer").Writer() },
	} {
		p := pair{t, s, name}
		ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
		defer cancel()
		var number atomic.Int64 // read and then written, which nothing but the lock protects
		drawn := make([]int64, 30)
		draw := func(i int) {
			n := number.Load() + 1
			time.Sleep(500 * time.Microsecond)
			number.Store(n)
			drawn[i] = n
		}
		plain := func(i int) error {
			owner := fmt.Sprint("contender ", i)
			for {
				taken, err := p.take(owner, time.Minute)
				if err != nil {
					return err
				}
				if taken {
					break
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("the scripts have taken nothing: %w", ctx.Err())
				case <-time.After(2 * time.Millisecond):
				}
			}
			draw(i)
			if kept, err := p.giveBack(owner); err != nil || !kept {
				return fmt.Errorf("the key of the scripts was taken away: %v", err)
			}
			return nil
		}
		ours := func(i int) error {
			lease, err := get([]*interlock.Client{a, b}[i/2%2]).Acquire(ctx)
			if err != nil {
				return err
			}
			draw(i)
			return lease.Release()
		}
		var wg sync.WaitGroup
		for i := range drawn {
			contend := plain
			if i%2 == 0 {
				contend = ours
			}
			wg.Go(func() {
				if err := contend(i); err != nil {
					t.Errorf("%s, contender %d: %v", name, i, err)
				}
			})
		}
		wg.Wait()
		slices.Sort(drawn)
		for i, n := range drawn {
			if n != int64(i)+1 {
				t.Fatalf("%s: %d contenders drew %v", name, len(drawn), drawn)
			}
		}
		if do(t, s, "EXISTS", name) != int64(0) {
			t.Errorf("%s: the key is left behind", name)
		}
	}
}
