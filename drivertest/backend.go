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
	"flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/process"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
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

	// LockQueue locks the record of a queue, as a client does that stops in the middle of a change of it, until unlock
	// is called.
	LockQueue func(queue string) (unlock func())

	// LoseMessages loses what the backend sends to its clients without being
	// asked, such as the news of a grant, until resume is called; calls go on.
	LoseMessages func() (resume func())

	// Stranger sends to the clients of sessions all that somebody can who may not change tickets: each
	// message, for the numbers from 0 to 100 or whatever else names a ticket, with tokens that were
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

// Beat renews tickets, and no others, until the test ends.
func Beat(t testing.TB, s *driver.Opened, every time.Duration, known ...driver.Ticket) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		renewals(ctx, s, every, known, func(error) {})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// renewals renews tickets again and again until its context ends.
func renewals(ctx context.Context, s driver.Session, every time.Duration, known []driver.Ticket, failed func(error)) {
	for ctx.Err() == nil {
		if _, err := s.Renew(ctx, known); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
		}
	}
}

// OpenURL opens a URL, as programs do.
func OpenURL(ctx context.Context, url string) (driver.Driver, error) {
	u, err := driver.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return driver.OpenURL(ctx, u)
}

// NobodyAt makes World.Unreachable of a URL at which no server answers.
func NobodyAt(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := OpenURL(ctx, url)
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.Open(ctx, driver.SessionOptions{TTL: time.Second})
		return err
	}
}

// Main runs the tests of a backend: TestMain calls it. In the copies of the test
// binary that the suites start it serves as a client in another process.
func Main(m interface{ Run() int }) {
	process.Main()
	flag.Set("rapid.nofailfile", "true") // its seed is enough to see a failure again
	moreAtATime()
	os.Exit(m.Run())
}

// moreAtATime has twice as many rules run beside each other as go test would have,
// unless it was told how many: most of the time they wait.
func moreAtATime() {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
}

// Run checks every rule of package driver. It must not run beside other tests,
// because it looks for goroutines that are left over.
func Run(t *testing.T, b Backend) {
	if b.World == nil || b.TTL <= 0 {
		t.Fatal("drivertest: Backend needs World and TTL")
	}
	if b.Shape != "" && !slices.ContainsFunc(shapes, func(s shape) bool { return s.name == b.Shape }) {
		t.Fatalf("drivertest: there is no shape %q", b.Shape)
	}
	url := ""
	if !b.Simulated {
		url = b.World(t).URL
	}
	noLeaks(t)
	suite.Run(t, suite.Config{Package: "drivertest", Processes: url != "", Simulated: b.Simulated, Unsupported: b.Unsupported, Only: b.Only},
		rules, func(r rule) []string { return variants(r, url, b.Shape) },
		func(tb testing.TB, r rule, variant string) { check(tb, r, b, variant) })
}

// leakLimit is for goroutines that end by themselves: clients of servers let go of
// old connections a few seconds after they have replaced them.
const leakLimit = 15 * time.Second

// leaked reports the goroutines that go on running within so much time, but for those that did before.
func leaked(before goleak.Option, within time.Duration) error {
	err := goleak.Find(before)
	for began := time.Now(); err != nil && time.Since(began) < within; err = goleak.Find(before) {
		time.Sleep(time.Second / 2) // Find has looked for as long
	}
	return err
}

// noLeaks fails the test if more goroutines run some time after its end than do now.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := leaked(before, leakLimit); err != nil {
			t.Errorf("goroutines are left after every driver was closed: %v\nbroken promise of package driver:\n\t“%s”", err, closeFrees)
		}
	})
}
