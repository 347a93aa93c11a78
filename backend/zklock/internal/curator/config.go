// Package curator keeps locks in ZooKeeper in the layouts of Apache Curator for semaphores
// (InterProcessSemaphoreV2), barriers and double barriers, and all other locks beside them. It is a driver of its
// own, for the options of a URL that ask for these layouts. Tickets of a line, floors of tokens, numbers of permits and cells
// are as in package zklock, where they are explained.
package curator

import (
	"context"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
)

// Config says how ZooKeeper is used.
type Config struct {
	Servers              zk.Servers
	Root                 string // in front of all nodes; "" or "/…"
	ACL                  []zk.ACL
	Kazoo, Latch         bool
	Semaphores, Barriers bool                                       // are Curator's
	Given                *zk.Link                                   // the program's own connection
	Check                func(ctx context.Context) []driver.Finding // driver.Driver.Check
}

// New makes a driver.
func New(c Config) driver.Driver {
	own := &config{servers: c.Servers, root: c.Root, acl: c.ACL, names: layout{c.Kazoo, c.Latch, c.Semaphores, c.Barriers}, check: c.Check}
	if c.Given != nil {
		own.given = newLink(c.Given)
	}
	return newDriver(own)
}

type config struct {
	servers zk.Servers
	root    string
	acl     []zk.ACL
	names   layout
	given   *link
	check   func(context.Context) []driver.Finding
}

// Check examines the ensemble.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.check(ctx)
}
