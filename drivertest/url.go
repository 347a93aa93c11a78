package drivertest

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// OpenURL opens a URL, as programs do.
func OpenURL(ctx context.Context, url string) (driver.Driver, error) {
	u, err := driver.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return driver.OpenURL(ctx, u)
}

// NobodyAt makes World.Unreachable of a URL at which no server answers.
func NobodyAt(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := OpenURL(ctx, url)
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.Open(ctx, driver.SessionOptions{TTL: time.Second})
		return err
	}
}
