package sqlitelock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

func (d *Driver) Check(ctx context.Context) []driver.Finding { return nil }
