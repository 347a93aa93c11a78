package redislock_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/redistest"
)

func TestMain(m *testing.M) { drivertest.Main(m) }

func TestConformance(t *testing.T) {
	s := redistest.Start(t)
	drivertest.Run(t, drivertest.Backend{
		TTL:   time.Second,
		World: func(t testing.TB) drivertest.World { return single(t, s) },
	})
}

func openURL(ctx context.Context, url string) (driver.Driver, error) {
	u, err := driver.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return driver.OpenURL(ctx, u)
}

// single is a world of its own on a server that others use too: behind a prefix,
// and, for the rules that hang it, behind a proxy.
func single(t testing.TB, s *redistest.Server) drivertest.World {
	prefix := "w" + rand.Text() + "/"
	url := func(addr string) string { return "redis://" + addr + "?prefix=" + prefix }
	var once sync.Once
	var proxy *redistest.Proxy
	p := func() *redistest.Proxy {
		once.Do(func() { proxy = redistest.NewProxy(t, s.Addr) })
		return proxy
	}
	t.Cleanup(func() { leakedNothing(t, s, prefix) })
	return drivertest.World{
		Open: func(ctx context.Context) (driver.Driver, error) { return openURL(ctx, url(p().Addr)) },
		URL:  url(s.Addr),
		Hang: func() (resume func()) { p().Hang(); return p().Resume },
		LoseMessages: func() (resume func()) {
			p().DropPushes(true)
			return func() { p().DropPushes(false) }
		},
		Unreachable: func(ctx context.Context) error {
			d, err := openURL(ctx, "redis://127.0.0.1:1")
			if err == nil {
				d.Close()
			}
			return err
		},
	}
}

// leakedNothing makes sure that every key goes away by itself, but for cells that
// exist.
func leakedNothing(t testing.TB, s *redistest.Server, prefix string) {
	for _, k := range s.Keys() {
		if !strings.HasPrefix(k, prefix) && !strings.HasPrefix(k, "interlock:{"+prefix) {
			continue
		}
		left, err := s.Do("PTTL", k)
		if err != nil || left != int64(-1) {
			continue
		}
		if exists, _ := s.Do("HGET", k, "exists"); strings.HasSuffix(k, ":c") && fmt.Sprint(exists) == "1" {
			continue
		}
		t.Errorf("the key %q stays for ever", k)
	}
}
