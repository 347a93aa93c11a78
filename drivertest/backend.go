// Package drivertest checks a backend of Interlock against the specification,
// which is the comments of package driver. A backend's own test is
//
//	func TestMain(m *testing.M) { drivertest.Main(m) }
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, drivertest.Backend{
//			World: func(t testing.TB) drivertest.World { … },
//			TTL:   time.Second,
//		})
//	}
//
// Each rule is a subtest, and a failure prints the sentence of package driver
// that was broken. A backend passes if every rule passes; a rule that it cannot
// keep is listed, with the reason, and shows up as skipped.
package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Backend says how a backend is tested.
type Backend struct {
	// World makes an empty backend: a new file, a new prefix on a server. Every
	// rule gets one of its own. What it needs is freed by t.Cleanup.
	World func(t testing.TB) World

	// TTL is the shortest that the backend grants. Sessions that are to die are
	// opened with it, so it decides how long the suite takes; a second is good.
	TTL time.Duration

	// Simulated runs each rule in a bubble of testing/synctest, for drivers that
	// live in the time of package time and do no I/O. Rules about processes are
	// not run.
	Simulated bool

	// Unsupported names the rules that the backend cannot keep, each with the
	// reason.
	Unsupported map[string]string

	// Shape is the only one in which rules about mutual exclusion are checked:
	// mutex, writers, all permits or election. Empty: each of them. It is for a
	// backend to which they are all the same, and for another layout of one kind,
	// beside a run that checks them all.
	Shape string

	// Small has rules repeat as little as with -short.
	Small bool

	// Only names the rules that are checked. Empty: all. It is for another way to
	// reach the same servers, beside a run that checks all.
	Only []string

	limit time.Duration // for rules that are to fail; else the package's
}

// World is one backend in which several clients meet. A rule whose field is not set fails: it is listed as
// unsupported, with the reason, or the field is set.
type World struct {
	// Open opens a driver: another client of the same world.
	Open func(ctx context.Context) (driver.Driver, error)

	// URL is what another process opens to be a client of this world; "" if only
	// this process can. Its scheme must be registered in the test binary.
	URL string

	// Files are those that the backend has, which any program may open and close as well.
	Files func() []string

	// Hang makes the backend stop answering, until resume is called.
	Hang func() (resume func())

	// Late makes answers late: what clients ask for happens, and they are not told
	// before resume is called.
	Late func() (resume func())

	// LoseMessages loses what the backend sends to its clients without being
	// asked, such as the news of a grant, until resume is called; calls go on.
	LoseMessages func() (resume func())

	// Stranger sends to the clients of sessions all that somebody can who may not change tickets: each
	// message, for the numbers from 0 to 1000 or whatever else names a ticket, with tokens that were
	// not given. The last token that was given is said.
	Stranger func(to []*driver.Opened, last uint64)

	// NoRights opens a driver as a user of the backend who has no rights there, or fails to.
	NoRights func(ctx context.Context) (driver.Driver, error)

	// Unreachable opens a driver and a session on a backend that is not there, and
	// returns the error.
	Unreachable func(ctx context.Context) error

	// Via opens a driver that reaches each server at another address, to which at leads: rules put
	// something in between, or in its place. The driver makes all its connections so.
	Via func(ctx context.Context, at func(server string) (addr string)) (driver.Driver, error)

	// Damages are what somebody can do to the records of a queue and of a cell of that name who may write these and
	// no others: garbage of each kind in each of them. Each is done when the queue has a holder and a waiter.
	Damages func(name string) []Damage

	// Shared makes a store in files that several users share, and says where others can write.
	Shared func(t testing.TB) Shared
}

// Damage is one way in which records are damaged. An error means that the backend refuses it.
type Damage struct {
	What string
	Do   func() error
}

// Shared is a store in files. Other users may put whatever they like in the place of all that is in the folder.
type Shared struct {
	Folder string
	Open   func(ctx context.Context) (driver.Driver, error)
}
