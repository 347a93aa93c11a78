package mysqllock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// everyLock is the promise that a server keeps that can be reached.
const everyLock = "every lock: none can be acquired or renewed"

// Check examines the server.
func (s *store) Check(ctx context.Context) []driver.Finding {
	var version string
	if err := s.row(ctx, "SELECT VERSION()", nil, &version); err != nil {
		return []driver.Finding{doctor.Of("server", doctor.Fail(everyLock, "see that the server runs, and that the URL names it", "%v", err))}
	}
	return []driver.Finding{doctor.Of("server", doctor.Fine("%s", version))}
}
