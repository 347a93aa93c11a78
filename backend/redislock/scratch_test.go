package redislock_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/redis/rueidis"
)

func BenchmarkW1(b *testing.B) {
	addr := os.Getenv("R")
	ctx := context.Background()
	b.Run("bare", func(b *testing.B) {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, PipelineMultiplex: -1, DisableCache: true, DisableRetry: true, ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		rel := rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
		for b.Loop() {
			cc, cancel := context.WithTimeout(ctx, 5*time.Second)
			if err := c.Do(cc, c.B().Set().Key("bare").Value("0123456789abcdef0123456789abcdef").Nx().PxMilliseconds(10000).Build()).Error(); err != nil {
				b.Fatal(err)
			}
			if err := rel.Exec(cc, c, []string{"bare"}, []string{"0123456789abcdef0123456789abcdef"}).Error(); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
	})
	b.Run("driver", func(b *testing.B) {
		d, err := openURL(ctx, "redis://"+addr)
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		s, _ := d.Open(ctx, driver.SessionOptions{TTL: time.Hour, Owner: "bench"})
		for b.Loop() {
			cc, cancel := context.WithTimeout(ctx, 5*time.Second)
			tk, err := s.Join(cc, driver.Request{ID: "0123456789abcdef0123456789abcdef", Queue: "d", Kind: driver.Mutex, Units: 1, Capacity: 1})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Leave(cc, tk, true); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
	})
	b.Run("core", func(b *testing.B) {
		c, err := interlock.Open(ctx, "redis://"+addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		l := c.Mutex("c")
		for b.Loop() {
			le, err := l.Acquire(ctx)
			if err != nil {
				b.Fatal(err)
			}
			if err := le.Release(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
