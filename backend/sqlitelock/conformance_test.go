package sqlitelock_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Backend{
		TTL: time.Second,
		World: func(t testing.TB) drivertest.World {
			path := filepath.Join(t.TempDir(), "locks.db")
			return drivertest.World{
				Open: func(ctx context.Context) (driver.Driver, error) { return sqlitelock.New(ctx, path) },
				URL:  "sqlite://" + path,
				Unreachable: func(ctx context.Context) error {
					d, err := sqlitelock.New(ctx, filepath.Join(t.TempDir(), "missing", "locks.db"))
					if err == nil {
						d.Close()
					}
					return err
				},
			}
		},
	})
}
