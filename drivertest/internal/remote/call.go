// Package remote drives a driver that lives in another process, so that rules
// about several clients can be checked with each of them in its own.
package remote

import (
	"context"
	"encoding/gob"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Call is one call of a method of a remote driver, or of one of its sessions.
type Call struct {
	ID      uint64 // for cancelling it
	Session int    // 0: the driver
	Method  string
	Args    []any
}

// Reply is its result.
type Reply struct {
	Result any // nil if there is none

	Error     string // "" if there was none
	Known     int    // one more than its index in knownErrors
	Permanent bool
}

// opened is what Open returns.
type opened struct {
	Session int
	ID      string
	TTL     time.Duration
}

func init() {
	for _, v := range []any{
		driver.SessionOptions{}, driver.Request{}, driver.Ticket{}, []driver.Ticket{}, driver.Swap{}, driver.Demand(0), time.Duration(0),
		opened{}, driver.Instant(0), []driver.Renewed{}, driver.Signal{}, driver.Cell{}, driver.Queue{}, []driver.Queue{}, []string{}, []driver.Finding{},
	} {
		gob.Register(v)
	}
}

var knownErrors = []error{
	driver.ErrBusy, driver.ErrMismatch, driver.ErrGone, driver.ErrSession, driver.ErrConflict, driver.ErrInvalid, driver.ErrTooLarge,
	context.Canceled, context.DeadlineExceeded, errors.ErrUnsupported,
}

// Error is an error that the other process returned.
type Error struct {
	message string
	known   error // nil if it is none of knownErrors
}

func (e *Error) Error() string { return e.message }
func (e *Error) Unwrap() error { return e.known }

// err is the error as it was, but for its type.
func (r *Reply) err() error {
	if r.Error == "" {
		return nil
	}
	e := &Error{message: r.Error}
	if r.Known > 0 {
		e.known = knownErrors[r.Known-1]
	} else if r.Permanent {
		return driver.Permanent(e)
	}
	return e
}
