//go:build !linux

package guard

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// share turns an instant of this process's clock into one of the clock that
// all processes of this machine share.
func share(t driver.Instant) driver.Instant { return now().Add(t.Sub(driver.Now())) }

// alarm rings at an instant of the shared clock.
type alarm struct {
	at chan driver.Instant
	C  chan struct{}
}

// look is how often the clock is read at least: a timer may not count the time
// during which the machine slept.
const look = 250 * time.Millisecond

func newAlarm() (*alarm, error) {
	a := &alarm{make(chan driver.Instant), make(chan struct{}, 1)}
	go func() {
		var at driver.Instant
		var timer <-chan time.Time
		for {
			select {
			case at = <-a.at:
			case <-timer:
			}
			if left := at.Sub(now()); left > 0 {
				timer = time.After(min(left, look))
				continue
			}
			timer = nil
			select {
			case a.C <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// set makes the alarm ring at t, at once if that is past.
func (a *alarm) set(t driver.Instant) error {
	a.at <- t
	return nil
}
