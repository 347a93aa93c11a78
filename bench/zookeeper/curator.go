package zookeeper

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/zkpeer"
)

// curator is a JVM with locks of Curator. It runs from its first workload to the
// end of the server, since a JVM is slow at first.
type curator struct {
	addr string // of the server

	mu   sync.Mutex
	dir  string
	peer *zkpeer.Peer
}

// At first it locks for warmFirst, then for warmAgain before each workload.
const warmFirst, warmAgain = 5 * time.Second, 300 * time.Millisecond

// mostClients is for how many W5 has clients: each takes several threads and files.
const mostClients = 1000

// ready returns a JVM that is warm.
func (c *curator) ready(ctx context.Context) (*zkpeer.Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer != nil {
		select {
		case <-c.peer.Done(): // killed by the end of a call's context
			c.end()
		default:
			return c.peer, nil
		}
	}
	dir, err := os.MkdirTemp("", "bench-curator-")
	if err != nil {
		return nil, err
	}
	peer, err := zkpeer.RunCurator(dir, c.addr, zkpeer.Fast(), zkpeer.SessionTimeout(30*time.Second))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	c.dir, c.peer = dir, peer
	contest, err := peer.Contest(ctx, zkpeer.Shape{Clients: 8, Workers: 8, Names: 1}, warmFirst)
	if err != nil {
		c.end()
		return nil, err
	}
	return peer, contest.Close(ctx)
}

func (c *curator) end() {
	c.peer.Kill()
	_ = os.RemoveAll(c.dir)
	c.peer = nil
}

func (c *curator) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer != nil {
		c.end()
	}
}

func (c *curator) Contest(ctx context.Context, s workload.Shape) (workload.Contest, error) {
	peer, err := c.ready(ctx)
	if err != nil {
		return nil, err
	}
	made, err := peer.Contest(ctx, zkpeer.Shape(s), warmAgain)
	if err != nil {
		return nil, err
	}
	return contest{made}, nil
}

type contest struct{ *zkpeer.Contest }

func (c contest) Run(ctx context.Context, d, limit time.Duration) (workload.Figures, error) {
	f, err := c.Contest.Run(ctx, d, limit)
	return workload.Figures(f), err
}

func (c *curator) Crowd(ctx context.Context, waiters, clients int, limit time.Duration) (workload.Crowd, error) {
	peer, err := c.ready(ctx)
	if err != nil {
		return nil, err
	}
	made, err := peer.Crowd(ctx, waiters, min(clients, mostClients), limit)
	if err != nil {
		return nil, err
	}
	return crowd{made}, nil
}

type crowd struct{ *zkpeer.Crowd }

func (c crowd) Drain(ctx context.Context, limit time.Duration) (workload.Figures, error) {
	f, err := c.Crowd.Drain(ctx, limit)
	return workload.Figures(f), err
}
