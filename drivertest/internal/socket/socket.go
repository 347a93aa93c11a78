// Package socket puts drivers behind a Unix socket, so that a backend that
// lives in one process can be reached from others.
package socket

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/remote"
)

func init() {
	driver.Register("socket", func(ctx context.Context, u *driver.URL) (driver.Driver, error) { return Dial(ctx, u.Path) })
}

// Dial opens a driver behind the socket.
func Dial(ctx context.Context, path string) (driver.Driver, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return remote.Dial(ctx, conn, "")
}

// Serve opens a driver for every connection to the socket whose path it returns,
// and closes it with the connection. Its URL is socket:// and the path.
func Serve(t testing.TB, open func(context.Context) (driver.Driver, error)) (path string) {
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d, err := open(context.Background())
			if err != nil {
				panic(err)
			}
			go remote.Serve(conn, d, nil)
		}
	}()
	return path
}
