package drivertest

import (
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// known repeats a call, as every caller has to, until it is known what came of it: after
// the backend was disturbed, a call may still be hit by what happened before.
func (t *trial) known(call func() error) error {
	for {
		err := call()
		if err == nil || driver.IsPermanent(err) || t.Ctx.Err() != nil {
			return err
		}
		for _, known := range []error{driver.ErrBusy, driver.ErrMismatch, driver.ErrGone, driver.ErrSession, driver.ErrConflict, driver.ErrInvalid} {
			if errors.Is(err, known) {
				return err
			}
		}
		time.Sleep(t.TTL / 50)
	}
}
