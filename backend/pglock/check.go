package pglock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

const everyLock = "every lock: none can be acquired or renewed"

// Check examines the server.
func (s *store) Check(ctx context.Context) []driver.Finding {
	if err := s.pool.Ping(ctx); err != nil {
		return []driver.Finding{doctor.Of("server", doctor.Fail(everyLock, "see that the server runs, and that the URL names it", "%v", s.Explain(err)))}
	}
	return []driver.Finding{doctor.Of("server", doctor.Fine("it answers"))}
}
