package mysqllock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Check examines the server.
func (s *store) Check(ctx context.Context) []driver.Finding { return nil }
