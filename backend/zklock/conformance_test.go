package zklock_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestMain(m *testing.M) { drivertest.Main(m) }

func TestConformance(t *testing.T) {
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	conform(t, s.Addr)
}

// cannot lists the rules that ZooKeeper cannot keep.
var cannot = map[string]string{
	"LostMessages": "events come over the connection that replies come over, in order: none is lost without it",
}

// conform runs the suite on servers that all rules share, each rule behind a path
// of its own. Clients in this process reach them through a proxy of the rule.
func conform(t *testing.T, addr string) {
	drivertest.Run(t, drivertest.Backend{
		TTL:         time.Second,
		Unsupported: cannot,
		World: func(t testing.TB) drivertest.World {
			root := "/w" + rand.Text()
			via := zktest.NewProxy(t, addr)
			return drivertest.World{
				Open: func(ctx context.Context) (driver.Driver, error) {
					return openURL(ctx, "zk://"+via.Addr+root)
				},
				URL:  "zk://" + addr + root,
				Hang: func() func() { via.Hang(); return via.Resume },
				Unreachable: func(ctx context.Context) error {
					d, err := openURL(ctx, "zk://127.0.0.1:1")
					if err != nil {
						return err
					}
					defer d.Close()
					_, err = d.Open(ctx, driver.SessionOptions{TTL: time.Second})
					return err
				},
			}
		},
	})
}

func openURL(ctx context.Context, url string) (driver.Driver, error) {
	u, err := driver.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return zklock.Open(ctx, u)
}
