package redis

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/bench/workload"
)

// publisher is the scheme that many locks on Redis have: who fails waits until
// the holder publishes its release, and then all try again.
type publisher struct {
	bare
	mu    sync.Mutex
	bells map[string]*bell
	ended []func()
}

func openPublisher(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		client, err := newClient(url, o, nil)
		if err != nil {
			return nil, err
		}
		return &publisher{bare: bare{client, o.TTL}, bells: map[string]*bell{}}, nil
	}
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
	p.ended = append(p.ended, end)
	if err := c.Do(context.Background(), c.B().Subscribe().Channel(channelOf(name)).Build()).Error(); err != nil {
		return nil, err
	}
	<-subscribed
	p.bells[name] = b
	return b, nil
}

func (p *publisher) Close() error {
	for _, end := range p.ended {
		end()
	}
	return p.bare.Close()
}

var releasePublish = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], '')
return 1`)

func (p *publisher) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		b, err := p.bell(name)
		if err != nil {
			return nil, err
		}
		value := rand.Text()
		dead := time.NewTicker(p.ttl) // of a holder that cannot publish
		defer dead.Stop()
		for {
			rung := b.next()
			ok, err := p.try(name, value)
			if err != nil {
				return nil, err
			}
			if ok {
				return &publisherHeld{bareHeld{p.bare, name, value}}, nil
			}
			select {
			case <-rung:
			case <-dead.C:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

type publisherHeld struct{ bareHeld }

func (h *publisherHeld) Release() error {
	return one(releasePublish.Exec(context.Background(), h.b.client, []string{h.name}, []string{h.value, channelOf(h.name)}))
}
