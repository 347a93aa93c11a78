package interlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	for _, opts := range [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.Sticky()}} {
		c, err := interlock.Open(ctx, "mem:")
		if err != nil {
			t.Fatal(err)
		}
		l := c.Mutex("a", opts...)
		n := 0
		began := time.Now()
		var wg sync.WaitGroup
		var last uint64
		for range 1000 {
			wg.Go(func() {
				for range 20 {
					if err := l.Do(ctx, func(ctx context.Context) error {
						n++
						ls, _ := l.Held(ctx)
						if ls.Token() <= last {
							t.Error("token")
						}
						last = ls.Token()
						if _, err := l.Acquire(ctx); !errors.Is(err, interlock.ErrDeadlock) {
							t.Error(err)
						}
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		t.Log(n, time.Since(began), c.Exchanges())
		began = time.Now()
		for range 10000 {
			ls, _ := l.Acquire(ctx)
			ls.Release()
		}
		t.Log("uncontended", time.Since(began)/10000)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
