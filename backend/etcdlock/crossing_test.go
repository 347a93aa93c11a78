package etcdlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Promise: whatever goroutines of a few clients do at the same time, with locks below each other too, with callers that
// try, or give up at any moment: one at a time holds a lock, its token is larger than the one before, and nothing is
// left behind.
func TestManyLocksAtTheSameTime(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		const clients, goroutines, rounds = 3, 20, 25
		s := etcdtest.Start(t, of)
		ctx := limited(t)
		names := strings.Fields("a a/b a/b/c a/x a/xy ab j j/1 j/2 j/3 j/4 j/5 k l m n o/1 o/2 o/3 o/4")
		type place struct {
			inside atomic.Int32
			token  uint64
		}
		places := make([]place, len(names))
		var all sync.WaitGroup
		var open []*interlock.Client
		for range clients {
			c := errtest.Must(interlock.Open(ctx, "etcd://"+s.Addr, interlock.TTL(20*time.Second)))(t)
			open = append(open, c)
			for range goroutines {
				all.Go(func() {
					for range rounds {
						i := rand.IntN(len(names))
						var opts []interlock.Option
						if rand.IntN(2) == 0 {
							opts = append(opts, interlock.StrictOrder())
						}
						lock, patience, cancel := c.Mutex(names[i], opts...), ctx, func() {}
						acquire := lock.Acquire
						switch rand.IntN(3) {
						case 0:
							acquire = lock.TryAcquire
						case 1:
							patience, cancel = context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(20*time.Millisecond))))
						}
						lease, err := acquire(patience)
						cancel()
						switch {
						case errors.Is(err, interlock.ErrBusy), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
							continue
						case err != nil:
							t.Errorf("%s: %v", names[i], err)
							return
						}
						p := &places[i]
						if p.inside.Add(1) != 1 {
							t.Errorf("%s: two hold it", names[i])
						}
						if lease.Token() <= p.token {
							t.Errorf("%s: the token %d follows %d", names[i], lease.Token(), p.token)
						}
						p.token = lease.Token()
						p.inside.Add(-1)
						if err := lease.Release(); err != nil {
							t.Errorf("%s: Release: %v", names[i], err)
						}
					}
				})
			}
		}
		all.Wait()
		for _, c := range open {
			noError(t, c.Close())
		}
		got := errtest.Must(raw(t, s.Addr).Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly()))(t)
		for _, kv := range got.Kvs {
			if !strings.HasPrefix(string(kv.Key), "{tombstone}/") || kv.Lease == 0 {
				t.Errorf("%s is left behind", kv.Key)
			}
		}
	})
}
