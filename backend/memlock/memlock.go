// Package memlock is the backend in memory: it excludes the goroutines of one
// process from each other. It is the reference for what package driver
// promises, and the backend for tests: time is simulated under testing/synctest,
// and it fails on demand ([Driver.Faults]), so that a program can be tested at
// each point where a call may be lost, hang, or come too late.
//
//	d := memlock.New()
//	c, err := interlock.New(ctx, d)
//	…
//	err = c.Mutex("report").Do(ctx, func(ctx context.Context) error {
//		d.Faults().Expire() // the lock is lost: does the work stop?
//		return work(ctx)
//	})
//
// It does no more than package driver demands, so that whoever relies on more notices it
// here: a Join that repeats an ID must have Retry set, Inherited is told to requests with ReportDeath
// only, the ID of a ticket that has left is refused for one TTL, and a Swap that is repeated
// is recognised for driver.SwapMemory and no longer.
//
// Its URLs are mem: for a private world, and mem:name for one that is shared
// inside the process by everybody who uses the name.
//
// A test that uses testing/synctest makes its world inside the bubble.
package memlock

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
)

func init() { driver.Register("mem", open) }

func open(_ context.Context, u *driver.URL) (driver.Driver, error) {
	if err := u.Check(); err != nil {
		return nil, err
	}
	if len(u.Hosts) > 0 || u.User != nil {
		return nil, driver.Invalid(errors.New("mem: has no host; write mem: for a private world, or mem:name"))
	}
	if u.Path == "" {
		return New(), nil
	}
	return Shared(u.Path).Driver(), nil
}

// New returns the only client of a new world; [Driver.World] makes more.
func New() *Driver { return NewWorld().Driver() }
