package interlock_test

import (
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

// stopped is a driver whose clock can jump, while timers do not fire: what a
// process sees that was stopped, or whose machine was suspended.
type stopped struct {
	*memlock.Driver
	ahead atomic.Int64
}

func (d *stopped) jump(by time.Duration) { d.ahead.Add(int64(by)) }

func (d *stopped) Now() driver.Instant {
	return d.Driver.Now().Add(time.Duration(d.ahead.Load()))
}
