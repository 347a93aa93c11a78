package zklock

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

func (d *Driver) Check(ctx context.Context) []driver.Finding {
	l, err := d.link(ctx)
	if err != nil {
		return []driver.Finding{{Check: "connection", Status: driver.Fail, Detail: err.Error(), Promise: "everything", Remedy: "check hosts, user and TLS of the URL"}}
	}
	_, timeout := l.tap.state()
	return []driver.Finding{{Check: "connection", Status: driver.OK, Detail: fmt.Sprintf("session of %v granted", timeout)}}
}
