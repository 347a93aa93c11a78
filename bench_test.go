package interlock_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

func benchClient(b *testing.B) *interlock.Client {
	c, err := interlock.New(context.Background(), memlock.New())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// One goroutine acquires and releases a lock that nobody else wants.
func BenchmarkUncontended(b *testing.B) {
	for name, opts := range map[string][]interlock.Option{
		"handover": nil, "strict": {interlock.StrictOrder()}, "sticky": {interlock.Sticky()},
	} {
		b.Run(name, func(b *testing.B) {
			l := benchClient(b).Mutex("m", opts...)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Acquire(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Release(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Many goroutines of one process want one lock; an operation is one hand-over.
func BenchmarkHandOver(b *testing.B) {
	for _, goroutines := range []int{2, 64, 10_000} {
		for name, opts := range map[string][]interlock.Option{
			"handover": nil, "strict": {interlock.StrictOrder()},
		} {
			b.Run(name+"/"+strconv.Itoa(goroutines), func(b *testing.B) {
				l := benchClient(b).Mutex("m", opts...)
				ctx := context.Background()
				b.ReportAllocs()
				left := make(chan struct{}, b.N)
				for range b.N {
					left <- struct{}{}
				}
				close(left)
				b.ResetTimer()
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for range left {
							lease, err := l.Acquire(ctx)
							if err != nil {
								b.Error(err)
								return
							}
							_ = lease.Release()
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
