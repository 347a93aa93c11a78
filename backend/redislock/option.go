package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
)

// Option changes how a server is used.
type Option func(*config)

type config struct {
	prefix       string               // of all keys; tests keep apart by it
	allNames     string               // what all names begin with, if the client said so: to examine rights
	user         string               // of the server; "" if that is not known
	sentinelUser string               // the user of the Sentinels
	options      rueidis.ClientOption // of an own client, for the doctor
	replicas     int
	patience     time.Duration // how long replicas may take
	own          bool          // the client is closed with the driver
	asks         bool          // an own client asks for the credentials of each connection
	conns        conn.Set      // of an own client
}

// Replicas has a grant count only when n replicas have confirmed that they know of
// it, within the given time. If they do not, it is undone, and Acquire tries again
// until its context ends. It costs a round trip to the replicas for each grant.
func Replicas(n int, within time.Duration) Option {
	return func(c *config) { c.replicas, c.patience = n, within }
}

const defaultPatience = time.Second

// configOf are the options of a program, checked.
func configOf(opts []Option) (*config, error) {
	c := &config{patience: defaultPatience}
	for _, set := range opts {
		set(c)
	}
	return c, c.check()
}

func (c *config) check() error {
	switch {
	case c.replicas < 0:
		return driver.Invalid(errors.New("redis: replicas is negative"))
	case c.replicas > 0 && c.patience < time.Millisecond:
		return driver.Invalid(errors.New("redis: replica_timeout is less than a millisecond"))
	}
	return nil
}

// Connect makes a client of its own, as the URL of Open does, with options that a URL has no
// words for: a function that dials or that knows the password, certificates that are in no
// file. Close of the driver closes that client.
//
// How commands are sent (pipelines, repetitions, cache, buffers) is not up to the options. Those
// that are zero are as with a URL: 5 s for dialing and credentials (Dialer.Timeout), 3 s for an
// answer (ConnWriteTimeout), "interlock" for ClientName. DialCtxFn and AuthCredentialsFn are
// left behind when they take longer than Dialer.Timeout, or the driver is closed.
func Connect(ctx context.Context, o rueidis.ClientOption, opts ...Option) (driver.Driver, error) {
	c, err := configOf(opts)
	if err != nil {
		return nil, err
	}
	c.own = true
	o.ClientName = cmp.Or(o.ClientName, defaultName)
	o.Dialer.Timeout = cmp.Or(o.Dialer.Timeout, defaultDialTimeout)
	o.Sentinel.Dialer.Timeout = cmp.Or(o.Sentinel.Dialer.Timeout, o.Dialer.Timeout)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, defaultTimeout)
	c.asks = o.AuthCredentialsFn != nil
	if !c.asks {
		c.user, c.sentinelUser = cmp.Or(o.Username, "default"), cmp.Or(o.Sentinel.Username, "default")
	}
	return connect(ctx, ours(o), c, conn.Explain)
}

// What a client of this package's own has if nobody has chosen.
const (
	defaultName        = "interlock"
	defaultDialTimeout = 5 * time.Second
	defaultTimeout     = 3 * time.Second // for an answer
)

// ours are the options with those of a client of this package's own that are not up to anybody
// else.
func ours(o rueidis.ClientOption) rueidis.ClientOption {
	// One connection for calls (in a cluster, to each node), which a single
	// caller uses without a hand-over to other goroutines. Another one is
	// dedicated to grants.
	o.PipelineMultiplex = -1
	o.DisableCache = true
	o.DisableRetry = true                          // the core repeats calls, with the same identity
	o.ClientSetInfo = rueidis.DisableClientSetInfo // a right that nothing else needs
	o.ReadBufferEachConn, o.WriteBufferEachConn = 64<<10, 64<<10
	o.Dialer.KeepAlive = cmp.Or(o.Dialer.KeepAlive, time.Second)
	return o
}

// connect makes a driver with a client of its own. What an error of the first connection means
// depends on who has named the servers.
func connect(ctx context.Context, o rueidis.ClientOption, c *config, means func(error) error) (driver.Driver, error) {
	c.options = o
	client, err := c.conns.Client(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(o.InitAddress, ", "), means(err))
	}
	d, err := newDriver(ctx, client, c)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(o.InitAddress, ", "), err)
	}
	return d, nil
}

// New uses a client that the program has already; Close of the driver leaves it
// open. The client must speak RESP3 or allow a connection to be dedicated to a
// subscription; grants arrive on such a connection.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (driver.Driver, error) {
	c, err := configOf(opts)
	if err != nil {
		return nil, err
	}
	return newDriver(ctx, client, c)
}
