package drivertest

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/remote"
)

// A world in memory behind a socket, so that the rules about processes have
// something to be tried on here.
func init() {
	driver.Register("socket", func(_ context.Context, u *driver.URL) (driver.Driver, error) {
		return dialSocket(u.Path)
	})
}

func dialSocket(path string) (driver.Driver, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return remote.Dial(context.Background(), conn, "")
}

// serve puts the world behind a socket.
func serve(world func(testing.TB) World) func(testing.TB) World {
	return func(t testing.TB) World {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		open := world(t).Open
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
		return World{
			Open: func(context.Context) (driver.Driver, error) { return dialSocket(path) },
			URL:  "socket://" + path,
		}
	}
}

var behindASocket = map[string]string{
	"HangingBackend":     "the socket is only for rules about processes",
	"UnreachableBackend": "memory is always there",
	"LostMessages":       "in one process no message is lost",
}

func TestMemlockBehindASocket(t *testing.T) {
	Run(t, Backend{World: serve(memory), Unsupported: behindASocket, TTL: 300 * time.Millisecond, Shape: "mutex", Small: true})
}
