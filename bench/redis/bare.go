package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/bench/workload"
)

// release deletes the lock if it is still ours.
var release = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)

// extend renews the lock if it is still ours.
var extend = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

var (
	errBusy = errors.New("the lock is taken")
	errGone = errors.New("the lock is not held any more")
)

// bare is the least that a lock can do. It does not wait. Its calls take no
// context that ends, which would make the client work harder.
type bare struct {
	client rueidis.Client
	ttl    time.Duration
}

func openBare(url string, change func(*rueidis.ClientOption)) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		client, err := newClient(url, o, change)
		if err != nil {
			return nil, err
		}
		return bare{client, o.TTL}, nil
	}
}

// newClient makes a client of rueidis with its defaults, apart from the change.
func newClient(url string, o workload.Options, change func(*rueidis.ClientOption)) (rueidis.Client, error) {
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(&opt)
	}
	smaller(&opt, o)
	return rueidis.NewClient(opt)
}

// smaller saves memory where there are many clients: by default each has a
// megabyte for each connection.
func smaller(opt *rueidis.ClientOption, o workload.Options) {
	if o.Clients > 100 {
		opt.ReadBufferEachConn, opt.WriteBufferEachConn = 16<<10, 16<<10
		opt.RingScaleEachConn = 8
	}
}

// pipelining has the client write and read in goroutines of their own. It does
// so for ever once two of its users have met.
func pipelining(open func(context.Context, workload.Options) (workload.Client, error)) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, o workload.Options) (workload.Client, error) {
		c, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		client := c.(bare).client
		ending, cancel := context.WithCancel(ctx)
		defer cancel()
		for range 100 { // each of its connections meets it
			if err := client.Do(ending, client.B().Ping().Build()).Error(); err != nil {
				client.Close()
				return nil, err
			}
		}
		return c, nil
	}
}

func (b bare) Close() error {
	b.client.Close()
	return nil
}

func (b bare) Lock(name string) workload.Lock {
	return func(context.Context) (workload.Held, error) {
		value := rand.Text()
		ok, err := b.try(name, value)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errBusy
		}
		return &bareHeld{b, name, value}, nil
	}
}

func (b bare) try(name, value string) (bool, error) {
	set := b.client.B().Set().Key(name).Value(value).Nx().Px(b.ttl).Build()
	err := b.client.Do(context.Background(), set).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

type bareHeld struct {
	b           bare
	name, value string
}

func (h *bareHeld) Release() error {
	return one(release.Exec(context.Background(), h.b.client, []string{h.name}, []string{h.value}))
}

func (h *bareHeld) Renew(ctx context.Context) error {
	ttl := strconv.FormatInt(h.b.ttl.Milliseconds(), 10)
	return one(extend.Exec(ctx, h.b.client, []string{h.name}, []string{h.value, ttl}))
}

func one(r rueidis.RedisResult) error {
	n, err := r.AsInt64()
	if err == nil && n != 1 {
		return errGone
	}
	return err
}
