package redislock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// KeyPrefix keeps the keys of a driver apart from those of others on a server.
func KeyPrefix(p string) Option { return func(c *config) { c.prefix = p } }

// OpenBehind takes the option prefix, which is else put before all names by the
// client, for the prefix of all keys.
func OpenBehind(ctx context.Context, u *driver.URL) (driver.Driver, error) {
	return openBehind(ctx, u, u.Text("prefix", ""))
}
