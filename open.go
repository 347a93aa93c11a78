package interlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/engine"
)

// Open connects to the backend of a URL. The backend must be imported:
//
//	import _ "github.com/interlock-go/interlock/backend/sqlitelock"
//
//	sqlite:locks.db          sqlitelock: a file, relative to the working directory
//	sqlite:///var/lib/l.db   sqlitelock: a file
//	file:///srv/locks        filelock: a directory
//	mem:                     memlock: memory of this client; mem:name, of this process
//	redis://host:6379        redislock: a Redis server, also with Sentinels or in a Cluster; rediss: with TLS
//	zk://h1,h2,h3/path       zklock: a ZooKeeper ensemble; zks: with TLS
//	etcd://h1,h2,h3/path     etcdlock: a cluster of etcd; etcds: with TLS
//	postgres://host/db       pglock: PostgreSQL, also behind a pooler; also postgresql:
//	mysql://host/db          mysqllock: MySQL or MariaDB; also mariadb:
//	quorum:?member=URL&…     quorumlock: a majority of independent backends, each a URL, percent-encoded
//
// Each is a package in the folder backend. Every URL takes the options ttl, prefix and owner; what
// else a backend takes stands in its documentation. Open fails at once, with
// the reason, if the URL is wrong or the backend cannot be reached (ErrUnavailable), or refuses what
// locks need: [Check] says what that is. A server that says that it is not ready, such as
// one that starts or has no leader, is asked again for five seconds. ctx bounds the opening only.
func Open(ctx context.Context, url string, opts ...ClientOption) (*Client, error) {
	u, cfg, err := configure(url, opts)
	if err != nil {
		return nil, err
	}
	var c *Client
	err = untilItPasses(ctx, func() error {
		d, err := driver.OpenURL(ctx, u)
		if err != nil {
			return err
		}
		if c, err = start(ctx, d, cfg); err != nil {
			_ = d.Close()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("interlock: open %s: %w", u, notOpen(err))
	}
	return c, nil
}

// notOpen is the error of a backend that does not open. What may pass is an outage.
func notOpen(err error) error {
	if err = engine.Public(err); driver.IsPermanent(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return engine.Unavailable(err)
}

// passesWithin is for how long a server that is not ready is asked again.
const passesWithin = 5 * time.Second

// untilItPasses repeats f while a server says that it is not ready. That is also the error if there is no answer
// any more after that.
func untilItPasses(ctx context.Context, f func() error) error {
	began := time.Now()
	var b backoff.Backoff
	var said error
	for {
		err := f()
		if !driver.IsPassing(err) {
			if err != nil && said != nil && ctx.Err() != nil {
				return said
			}
			return err
		}
		if said = err; time.Since(began) >= passesWithin || b.Sleep(ctx) != nil {
			return said
		}
	}
}

// configure reads a URL, whose options are those of a client and those of its backend.
func configure(url string, opts []ClientOption) (*driver.URL, clientConfig, error) {
	cfg := defaultConfig()
	u, err := driver.ParseURL(url)
	if err != nil {
		return nil, cfg, fmt.Errorf("interlock: %w", err)
	}
	cfg.ttl = u.Duration("ttl", cfg.ttl)
	cfg.prefix = u.Text("prefix", cfg.prefix)
	cfg.owner = u.Text("owner", cfg.owner)
	cfg.backend = u.Scheme
	for _, o := range opts {
		o(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, cfg, fmt.Errorf("interlock: open %s: %w", u, err)
	}
	return u, cfg, nil
}

// Check finds out why Open refuses a URL: which rights or tables are missing, or whether
// the server is a standby, and what to do about it. It is [Admin.Check] without a client,
// and takes the same options as Open. It fails if the URL is wrong or the backend does not
// answer, and with errors.ErrUnsupported for memory and SQLite, where Open's error says
// all. ctx bounds it: what was not checked by then fails.
func Check(ctx context.Context, url string, opts ...ClientOption) ([]Finding, error) {
	u, _, err := configure(url, opts)
	if err != nil {
		return nil, err
	}
	found, err := driver.ExamineURL(ctx, u)
	if errors.Is(err, errors.ErrUnsupported) { // nobody has looked at the options of u
		return nil, fmt.Errorf("interlock: check: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("interlock: check %s: %w", u, engine.Public(err))
	}
	return found, nil
}

// Driver is what the client works on, for [New] of a driver over drivers, such as quorumlock.New. It stays
// the client's own: its Close does nothing.
func (c *Client) Driver() driver.Driver { return lent{c.e.Driver()} }

type lent struct{ driver.Driver }

func (lent) Close() error { return nil }

// New makes a client of a driver that was opened by other means, such as one
// over connections that the program has already. The client owns it: Close
// closes it too.
func New(ctx context.Context, d driver.Driver, opts ...ClientOption) (*Client, error) {
	cfg := defaultConfig()
	for _, o := range opts {
		o(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("interlock: %w", err)
	}
	c, err := start(ctx, d, cfg)
	if err != nil {
		return nil, fmt.Errorf("interlock: open: %w", notOpen(err))
	}
	return c, nil
}

func (cfg *clientConfig) check() error { return driver.Invalid(cfg.wrong()) }

func (cfg *clientConfig) wrong() error {
	if cfg.ttl < minTTL || cfg.ttl > 24*time.Hour {
		return fmt.Errorf("ttl %v is out of range: %v to 24h", cfg.ttl, minTTL)
	}
	if len(cfg.owner) > driver.MaxOwner {
		return fmt.Errorf("owner has %d bytes, at most %d are allowed", len(cfg.owner), driver.MaxOwner)
	}
	if cfg.prefix != "" {
		if err := driver.CheckName(cfg.prefix + "x"); err != nil {
			return fmt.Errorf("prefix: %w", err)
		}
	}
	return nil
}
