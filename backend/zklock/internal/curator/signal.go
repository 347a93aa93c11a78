package curator

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return s.signals.Next(ctx, s.usable, s.over, s.d.ctx.Done())
}
