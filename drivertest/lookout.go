package drivertest

import (
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// lookout notes when this machine or the backend is slow, for rules about what is quick while they are not.
type lookout struct {
	client *client
	slow   time.Duration // that a look takes, with the pause before the next
	began  atomic.Int64  // the [driver.Instant] of the last look
	last   atomic.Int64  // that until which something was slow
	stop   func()
}

// lookout has the client join and leave a queue of its own, until it is stopped. What takes longer than
// bound is slow.
func (c *client) lookout(bound time.Duration) *lookout {
	l := &lookout{client: c, slow: bound + bound/2}
	l.began.Store(int64(c.driver.Now()))
	over, ended := make(chan struct{}), make(chan struct{})
	l.stop = func() { close(over); <-ended }
	go func() {
		defer close(ended)
		for {
			began := c.driver.Now()
			l.began.Store(int64(began))
			tk, err := c.Join(c.t.ctx, c.t.exclusive("lookout"))
			if err == nil {
				err = c.Leave(c.t.ctx, tk, true)
			}
			select {
			case <-over:
				return
			case <-time.After(bound / 2):
			}
			if now := c.driver.Now(); err != nil || now.Sub(began) > l.slow {
				l.last.Store(int64(now))
			}
		}
	}()
	return l
}

// since reports whether something was slow then, or later.
func (l *lookout) since(then driver.Instant) bool {
	return l.last.Load() > int64(then) || l.client.driver.Now().Sub(driver.Instant(l.began.Load())) > l.slow
}
