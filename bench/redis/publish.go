package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/bench/workload"
)

// openPublisher makes clients of the scheme that many locks on Redis have: who fails
// waits until the holder publishes its release, and then all try again.
func openPublisher(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		opt, err := rueidis.ParseURL(url)
		if err != nil {
			return workload.Client{}, err
		}
		client, err := rueidis.NewClient(opt)
		if err != nil {
			return workload.Client{}, err
		}
		p := &publisher{client: client, ttl: o.TTL, bells: map[string]*bell{}}
		return workload.Client{Lock: p.lock, Close: p.close}, nil
	}
}

type publisher struct {
	client rueidis.Client
	ttl    time.Duration

	mu    sync.Mutex
	bells map[string]*bell
	ends  []func()
}

// bell wakes everybody who waits for one name.
type bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed by the next message
}

func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

func channelOf(name string) string { return "released:" + name }

// bell subscribes to the releases of one name, once.
func (p *publisher) bell(name string) (*bell, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.bells[name]; b != nil {
		return b, nil
	}
	b := &bell{rung: make(chan struct{})}
	c, end := p.client.Dedicate()
	subscribed := make(chan struct{})
	c.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(rueidis.PubSubMessage) { b.ring() },
		OnSubscription: func(rueidis.PubSubSubscription) { close(subscribed) },
	})
	p.ends = append(p.ends, end)
	if err := c.Do(context.Background(), c.B().Subscribe().Channel(channelOf(name)).Build()).Error(); err != nil {
		return nil, err
	}
	<-subscribed
	p.bells[name] = b
	return b, nil
}

func (p *publisher) close() error {
	for _, end := range p.ends {
		end()
	}
	p.client.Close()
	return nil
}

func (p *publisher) lock(name string) workload.Lock {
	return func(ctx context.Context) (h workload.Held, err error) {
		b, err := p.bell(name)
		if err != nil {
			return h, err
		}
		value := rand.Text()
		dead := time.NewTicker(p.ttl) // of a holder that cannot publish
		defer dead.Stop()
		for {
			rung := b.next()
			// A context that ends would make the client work harder.
			err := p.client.Do(context.Background(), p.client.B().Set().Key(name).Value(value).Nx().Px(p.ttl).Build()).Error()
			if err == nil {
				return workload.Held{Release: func() error { return p.release(name, value) }}, nil
			}
			if !rueidis.IsRedisNil(err) {
				return h, err
			}
			select {
			case <-rung:
			case <-dead.C:
			case <-ctx.Done():
				return h, context.Cause(ctx)
			}
		}
	}
}

// release deletes the lock if it is still its holder's.
func (p *publisher) release(name, value string) error {
	n, err := release.Exec(context.Background(), p.client, []string{name}, []string{value, channelOf(name)}).AsInt64()
	if err == nil && n != 1 {
		err = errors.New("the lock is not held any more")
	}
	return err
}

var release = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], '')
return 1`)
