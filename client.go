package interlock

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
)

// Client is one member: it has one session with the backend and one heartbeat,
// whatever it holds. A client outlives its sessions: when one dies, its leases
// are lost and say so, a new session is opened, and waiters line up again. All
// methods may be called concurrently.
type Client struct {
	e   *engine.Engine
	cfg clientConfig

	mu        sync.Mutex           // of the followers, too
	followers map[string]*follower // by the key of the cell
}

// start opens the first session and everything that runs until Close.
func start(ctx context.Context, d driver.Driver, cfg clientConfig) (*Client, error) {
	c := &Client{cfg: cfg, followers: map[string]*follower{}}
	settings := engine.Config{
		TTL: cfg.ttl, Owner: cfg.owner, Observed: cfg.observed(),
		Renewed: func(ctx context.Context, took time.Duration, exchanges uint64) {
			c.emit(ctx, Event{Kind: EventRenewed, Took: took, Exchanges: exchanges})
		},
		Reopened: func(ctx context.Context, took time.Duration) { c.emit(ctx, Event{Kind: EventSession, Took: took}) },
	}
	if cfg.log != nil {
		settings.Changed = func(ttl time.Duration) {
			cfg.log.Info("interlock: the backend changed the TTL", "asked", cfg.ttl, "granted", ttl)
		}
	}
	var err error
	if c.e, err = engine.New(ctx, d, settings); err != nil {
		return nil, err
	}
	return c, nil
}

// TTL returns what the backend granted, which may differ from what was asked.
func (c *Client) TTL() time.Duration { return c.e.TTL() }
