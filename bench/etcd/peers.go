package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/interlock-go/interlock/bench/workload"
)

// bare puts and deletes the key that every lock on etcd has, and does not look whether it is alone.
type bare struct {
	c     *clientv3.Client
	lease clientv3.LeaseID
}

func openBare(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, o workload.Options) (workload.Client, error) {
		c, err := connect(url)
		if err != nil {
			return nil, err
		}
		lease, err := c.Grant(ctx, ttl(o))
		if err != nil {
			c.Close()
			return nil, err
		}
		return bare{c, lease.ID}, nil
	}
}

func ttl(o workload.Options) int64 { return int64(max(o.TTL, 2*time.Second) / time.Second) }

func (b bare) Close() error { return b.c.Close() }

func (b bare) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		_, err := b.c.Put(ctx, name, "", clientv3.WithLease(b.lease))
		return bareHeld{b.c, name}, err
	}
}

type bareHeld struct {
	c    *clientv3.Client
	name string
}

func (h bareHeld) Release() error {
	_, err := h.c.Delete(context.Background(), h.name)
	return err
}

// peerClient locks with the package concurrency. Two mutexes of one session are the same one, so that
// each that holds or waits has a session.
type peerClient struct {
	c   *clientv3.Client
	ttl int64

	mu   sync.Mutex
	free []*concurrency.Session
}

func openConcurrency(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		c, err := connect(url)
		if err != nil {
			return nil, err
		}
		return &peerClient{c: c, ttl: ttl(o)}, nil
	}
}

// Close revokes the leases, as the sessions would one after the other.
func (p *peerClient) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.free {
		_ = s.Close()
	}
	return p.c.Close()
}

func (p *peerClient) session() (*concurrency.Session, error) {
	p.mu.Lock()
	if last := len(p.free) - 1; last >= 0 {
		s := p.free[last]
		p.free = p.free[:last]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	return concurrency.NewSession(p.c, concurrency.WithTTL(int(p.ttl)))
}

func (p *peerClient) put(s *concurrency.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}

func (p *peerClient) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		s, err := p.session()
		if err != nil {
			return nil, err
		}
		m := concurrency.NewMutex(s, "/"+name)
		if err := m.Lock(ctx); err != nil {
			_ = s.Close()
			return nil, err
		}
		return &peerHeld{p, s, m}, nil
	}
}

// Waiting lists all but the first one.
func (p *peerClient) Waiting(ctx context.Context, name string) (tickets []string, err error) {
	got, err := p.c.Get(ctx, "/"+name+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	for _, kv := range got.Kvs[min(1, len(got.Kvs)):] {
		tickets = append(tickets, string(kv.Key))
	}
	return tickets, nil
}

type peerHeld struct {
	p *peerClient
	s *concurrency.Session
	m *concurrency.Mutex
}

func (h *peerHeld) Ticket() string { return h.m.Key() }

func (h *peerHeld) Release() error {
	err := h.m.Unlock(context.Background())
	h.p.put(h.s)
	return err
}
