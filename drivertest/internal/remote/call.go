// Package remote drives a driver that lives in another process, so that rules
// about several clients can be checked with each of them in its own.
package remote

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Call is one call of a remote driver.
type Call struct {
	ID      uint64 // for cancelling it
	Op      string
	Session int
	Timeout time.Duration

	URL     string
	Options driver.SessionOptions
	Request driver.Request
	Ticket  driver.Ticket
	Known   []driver.Ticket
	Swap    driver.Swap
	Name    string
	Member  string
	After   uint64
	Version string
	Units   int64
	For     time.Duration
	Clean   bool
	Demand  driver.Demand
	Work    []byte // what the work needs, as JSON
}

// Reply is its result.
type Reply struct {
	Session  int
	TTL      time.Duration
	ID       string
	Now      driver.Instant
	Ticket   driver.Ticket
	Renewed  []driver.Renewed
	Signal   driver.Signal
	Cell     driver.Cell
	Queue    driver.Queue
	Queues   []driver.Queue
	Names    []string
	Findings []driver.Finding
	Count    uint64

	Error     string // "" if there was none
	Known     int    // one more than its index in knownErrors
	Permanent bool
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
