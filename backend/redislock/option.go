package redislock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
)

// Option changes how a server is used.
type Option func(*config)

type config struct {
	prefix       string // of all keys; tests keep apart by it
	allNames     string // what all names begin with, if the client said so: to examine rights
	user         string // of the server; "" if that is not known
	sentinelUser string // the user of the Sentinels
	replicas     int
	patience     time.Duration // how long replicas may take
	own          bool          // the client is closed with the driver
	timeout      time.Duration // of an own client, for calls
	conns        conns         // of an own client
}

// Replicas has a grant count only when n replicas have confirmed that they know of
// it, within the given time. If they do not, it is undone, and Acquire tries again
// until its context ends. It costs a round trip to the replicas for each grant.
func Replicas(n int, within time.Duration) Option {
	return func(c *config) { c.replicas, c.patience = n, within }
}

const defaultPatience = time.Second

func (c *config) check() error {
	switch {
	case c.replicas < 0:
		return driver.Invalid(fmt.Errorf("redis: replicas=%d is negative", c.replicas))
	case c.replicas > 0 && c.patience < time.Millisecond:
		return driver.Invalid(fmt.Errorf("redis: replica_timeout=%v is less than a millisecond", c.patience))
	}
	return nil
}

// New uses a client that the program has already; Close of the driver leaves it
// open. The client must speak RESP3 or allow a connection to be dedicated to a
// subscription; grants arrive on such a connection.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (driver.Driver, error) {
	c := &config{patience: defaultPatience}
	for _, o := range opts {
		o(c)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return newDriver(ctx, client, c)
}
