package pglock_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: it works behind a pooler that pools transactions: all of the specification
// holds, with news by a direct connection.
func TestConformanceBehindAPooler(t *testing.T) {
	s := pgtest.Start(t)
	p := pgtest.StartPooler(t, s)
	drivertest.Run(t, drivertest.Backend{
		TTL:   time.Second,
		Small: true,
		World: func(t testing.TB) drivertest.World {
			schema := "w" + strings.ToLower(rand.Text())
			calls, news := pgtest.NewProxy(t, p.Addr), pgtest.NewProxy(t, s.Addr)
			direct := strings.Replace(s.URL(), s.Addr, news.Addr, 1)
			via := strings.Replace(p.URL(), p.Addr, calls.Addr, 1)
			return drivertest.World{
				Open: func(ctx context.Context) (driver.Driver, error) {
					return openPool(ctx, via, pglock.In(pglock.Schema{Name: schema}), pglock.Direct(direct))
				},
				URL: p.URL() + "&schema=" + schema + "&direct=" + url.QueryEscape(s.URL()),
				Hang: func() func() {
					calls.Hang()
					news.Hang()
					return func() { calls.Resume(); news.Resume() }
				},
				LoseMessages: func() func() {
					news.DropNotifications(true)
					return func() { news.DropNotifications(false) }
				},
				Unreachable: unreachable,
			}
		},
	})
}
