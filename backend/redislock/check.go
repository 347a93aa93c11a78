package redislock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Check examines the server.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	d.exchanges.Add(1)
	err := d.usable(ctx)
	if err == nil {
		err = d.failed(ctx, d.client.Do(ctx, d.client.B().Ping().Build()).Error())
	}
	if err != nil {
		return []driver.Finding{{Check: "server", Status: driver.Fail, Detail: err.Error(), Promise: "every lock", Remedy: "look whether the server runs"}}
	}
	return []driver.Finding{{Check: "server", Status: driver.OK, Detail: "it answers"}}
}
