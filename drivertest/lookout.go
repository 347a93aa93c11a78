package drivertest

import (
	"sync/atomic"
	"time"
)

// lookout notes whether this machine or the backend was slow, for rules about what is quick while they are not.
type lookout struct {
	t    *trial
	slow atomic.Bool
	stop func()
}

// lookout has the client join and leave a queue of its own, until it is stopped. What takes longer than
// bound is slow.
func (c *client) lookout(bound time.Duration) *lookout {
	l := &lookout{t: c.t}
	over, ended := make(chan struct{}), make(chan struct{})
	l.stop = func() { close(over); <-ended }
	go func() {
		defer close(ended)
		for began := c.driver.Now(); ; began = c.driver.Now() {
			tk, err := c.Join(c.t.Ctx, c.t.exclusive("lookout"))
			if err == nil {
				err = c.Leave(c.t.Ctx, tk, true)
			}
			if err != nil || c.driver.Now().Sub(began) > bound {
				l.slow.Store(true)
			}
			select {
			case <-over:
				return
			case <-time.After(bound / 2):
			}
		}
	}()
	return l
}

// wasQuick gives up an attempt in which something was slow: what it saw then tells nothing about the driver.
func (l *lookout) wasQuick() {
	if l.slow.Load() {
		l.t.Slow("this machine or the backend was slow")
	}
}
