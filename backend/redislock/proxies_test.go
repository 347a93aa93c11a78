package redislock_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
)

// proxies stand between the clients of a test and each server that these dial.
type proxies struct {
	t testing.TB

	mu       sync.Mutex
	all      map[string]*redistest.Proxy
	hanging  bool
	holding  bool // replies
	deafened bool
}

func (p *proxies) at(addr string) string { return p.of(addr).Addr }

func (p *proxies) of(addr string) *redistest.Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[addr] == nil {
		if p.all == nil {
			p.all = map[string]*redistest.Proxy{}
		}
		proxy := redistest.NewProxy(p.t, addr)
		if p.hanging {
			proxy.Hang()
		}
		if p.holding {
			proxy.Late()
		}
		proxy.DropPushes(p.deafened)
		p.all[addr] = proxy
	}
	return p.all[addr]
}

func (p *proxies) each(f func(*redistest.Proxy)) {
	for _, proxy := range p.all {
		f(proxy)
	}
}

func (p *proxies) hang() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hanging = true
	p.each((*redistest.Proxy).Hang)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hanging = false
		p.each((*redistest.Proxy).Resume)
	}
}

func (p *proxies) late() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
	p.each((*redistest.Proxy).Late)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.holding = false
		p.each((*redistest.Proxy).Resume)
	}
}

func (p *proxies) loseMessages() (resume func()) {
	set := func(lose bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.deafened = lose
		p.each(func(proxy *redistest.Proxy) { proxy.DropPushes(lose) })
	}
	set(true)
	return func() { set(false) }
}

// dialAt finds each server at another address.
func dialAt(at func(server string) string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", at(addr))
	}
}

// ownClient is a driver that closes the client that its program has made.
type ownClient struct {
	driver.Driver
	client rueidis.Client
}

func (d ownClient) Close() error {
	err := d.Driver.Close()
	d.client.Close()
	return err
}

// openVia opens a driver on a client of Redis of the test's own, which finds each server at another address.
func openVia(ctx context.Context, at func(server string) string, o rueidis.ClientOption, prefix string) (driver.Driver, error) {
	o.DialCtxFn = dialAt(at)
	o.DisableCache = true
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	d, err := redislock.New(ctx, client, redislock.KeyPrefix(prefix))
	if err != nil {
		client.Close()
		return nil, err
	}
	return ownClient{d, client}, nil
}
