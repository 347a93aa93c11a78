package zklock

import (
	"net"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
)

// Tap listens to the connections of a client of ZooKeeper, which keeps to
// itself what locks depend on: the timeout that the server granted, the
// transaction of each reply, when a session was last proven, and the end of a
// connection. A program that brings its own client gives it Tap.Dial:
//
//	tap := zklock.NewTap(nil)
//	conn, _, err := zk.Connect(hosts, timeout, zk.WithDialer(tap.Dial))
//	…
//	d, err := zklock.New(ctx, conn, tap)
type Tap struct{ tap *zk.Tap }

// NewTap makes a Tap for one client. It connects by dial, or by TCP if dial is nil.
func NewTap(dial func(network, address string, timeout time.Duration) (net.Conn, error)) *Tap {
	return &Tap{zk.NewTap(dial)}
}

// Dial connects to a server; it is for zk.WithDialer.
func (t *Tap) Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	return t.tap.Dial(network, address, timeout)
}
