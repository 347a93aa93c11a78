package primitives

import (
	"errors"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// over makes a client of the driver, which is closed with the rule.
func (t *trial) over(d driver.Driver, ttl time.Duration, opts ...interlock.ClientOption) *interlock.Client {
	t.Helper()
	c, err := interlock.New(t.Ctx, d, append([]interlock.ClientOption{interlock.TTL(ttl)}, opts...)...)
	if err != nil {
		d.Close()
		t.Fatalf("open a client: %v", err)
	}
	t.Later(func() {
		if err := c.Close(); err != nil && !errors.Is(err, interlock.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}
