package drivertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

const limit = suite.Limit

// rules is the suite.
var rules suite.Rules[*trial]

type rule = suite.Rule[*trial]

// A trial is a rule under check.
type trial struct {
	*suite.Trial
	Backend

	shape    shape
	world    World
	disturbs bool     // the rule disturbs calls: they are repeated
	claims   []func() // are looked at in the end
}

const inProcesses = "in processes"

// variants are the ways in which a rule is checked: in each shape, and with each client in a process.
func variants(r rule, url, shape string) (all []string) {
	for _, s := range shapes {
		if shape != "" && s.name != shape {
			continue
		}
		all = append(all, s.name)
		if !r.Exclusive || testing.Short() {
			break
		}
	}
	if r.Across && url != "" {
		all = append(all, inProcesses)
	}
	return all
}

// check checks the rule in a new world, and once more in another one, with twice the TTL, if this
// machine paused for so long that a session died which had to live.
func check(tb testing.TB, r rule, b Backend, variant string) {
	tb.Helper()
	r.Try(tb, 5, func(n int) (*suite.Trial, *trial) {
		w := b.World(tb)
		if r.Hook != "" && reflect.ValueOf(w).FieldByName(r.Hook).IsZero() {
			tb.Fatalf("World.%s is not set; list %s as unsupported, with the reason", r.Hook, r.Name)
		}
		b := b
		b.TTL <<= n
		f := r.Begin(tb, "driver", b.Simulated, cmp.Or(b.limit, suite.Patience(b.Simulated)))
		t := &trial{Trial: f, Backend: b, shape: shapes[0], world: w}
		for _, s := range shapes {
			if s.name == cmp.Or(b.Shape, variant) {
				t.shape = s
			}
		}
		if variant == inProcesses {
			t.world = w.inProcesses()
		}
		f.AtEnd = func() {
			for _, look := range t.claims {
				look()
			}
		}
		return f, t
	})
}

// state describes a queue in which something has not come.
func (t *trial) state(d driver.Driver, queue string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	q, err := d.Follow(ctx, queue, "")
	if err != nil {
		return fmt.Sprintf("; the queue %q cannot be read: %v", queue, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "; the queue %q of capacity %d has %d tickets:", queue, q.Capacity, len(q.Members))
	for _, m := range q.Members[:min(10, len(q.Members))] {
		fmt.Fprintf(&b, "\n\t%s of %s, units %d, held %v, ends in %v, fixed %v", m.ID, m.Owner, m.Units, m.Held, m.Left, m.Fixed)
	}
	return b.String()
}

// size returns a number of repetitions: fewer with -short, and under the race
// detector.
func (t *trial) size(n, short int) int {
	switch {
	case testing.Short() || t.Small:
		return short
	case slow:
		return max(short, n/3)
	}
	return n
}

// soon returns a context for something that must not happen: it ends soon.
func (t *trial) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Ctx, 50*time.Millisecond)
}

// driver opens another client of the world.
func (t *trial) driver() driver.Driver {
	d, _ := t.guest()
	return d
}

// guest opens another client of the world, which may leave before the rule ends.
func (t *trial) guest() (d driver.Driver, leave func() error) {
	d, err := t.world.Open(t.Ctx)
	t.OK(err, "open a driver")
	leave = sync.OnceValue(d.Close)
	t.closes(leave)
	return d, leave
}

// closes has a driver closed with the rule.
func (t *trial) closes(shut func() error) {
	t.Later(func() {
		if err := shut(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// inTime gives up an attempt that came too late for an instant: what it saw then
// tells nothing about the backend.
func (t *trial) inTime(d driver.Driver, end driver.Instant) {
	if d.Now() >= end {
		t.Slow("this machine paused for longer than the TTL of %v", t.TTL)
	}
}

// okBefore fails the rule if there is an error of what was to be done before an instant, unless it came too late for
// that.
func (t *trial) okBefore(d driver.Driver, end driver.Instant, err error, what string, args ...any) {
	if err != nil {
		t.inTime(d, end)
	}
	t.OK(err, what, args...)
}

// A shape is a way to ask for mutual exclusion. Rules about exclusion hold in
// each of them.
type shape struct {
	name            string
	kind            driver.Kind
	units, capacity int64
}

var shapes = []shape{
	{"mutex", driver.Mutex, 1, 1},
	{"writers", driver.RWMutex, driver.RWCapacity, driver.RWCapacity},
	{"all permits", driver.Semaphore, 5, 5},
	{"election", driver.Election, 1, 1},
}

// newID is an identity for a ticket or a swap.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// exclusive asks for the whole queue, in the shape that is under check.
func (t *trial) exclusive(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: t.shape.kind, Units: t.shape.units, Capacity: t.shape.capacity, ReportDeath: true}
}

func mutex(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

func permits(queue string, units, capacity int64) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.Semaphore, Units: units, Capacity: capacity, ReportDeath: true}
}

func reader(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.RWMutex, Units: 1, Capacity: driver.RWCapacity, ReportDeath: true}
}

func writer(queue string) driver.Request {
	return driver.Request{ID: newID(), Queue: queue, Kind: driver.RWMutex, Units: driver.RWCapacity, Capacity: driver.RWCapacity, ReportDeath: true}
}

// again is a request that may have been sent before.
func again(r driver.Request) driver.Request {
	r.Retry = true
	return r
}

// nowait is a request that does not stand in line.
func nowait(r driver.Request) driver.Request {
	r.NoWait = true
	return r
}

// outcomes are the errors with which it is known what came of a call.
var outcomes = []error{driver.ErrBusy, driver.ErrMismatch, driver.ErrGone, driver.ErrSession, driver.ErrConflict, driver.ErrInvalid}

// known repeats a call, as every caller has to, until it is known what came of it: after
// the backend was disturbed, a call may still be hit by what happened before. Of a call that was repeated,
// worked are errors that say that it had worked before.
func (t *trial) known(call func() error, worked ...error) error {
	is := func(err error) func(error) bool { return func(known error) bool { return errors.Is(err, known) } }
	for n := 0; ; n++ {
		if n > 1 {
			time.Sleep(t.TTL / 50)
		}
		switch err := call(); {
		case n > 0 && slices.ContainsFunc(worked, is(err)):
			return nil
		case err == nil, driver.IsPermanent(err), t.Ctx.Err() != nil, slices.ContainsFunc(outcomes, is(err)):
			return err
		}
	}
}

// A result is what a call that was made beside the rule has come to.
type result struct {
	name string
	err  error
}

// beside makes the calls beside the rule, with the context, and yields what they come to.
func (t *trial) beside(ctx context.Context, calls map[string]func(context.Context) error) <-chan result {
	results := make(chan result, len(calls))
	for name, call := range calls {
		t.Calls.Go(func() { results <- result{name, call(ctx)} })
	}
	return results
}

// call makes a call, in rules that disturb calls as known does.
func (t *trial) call(call func() error, worked ...error) error {
	if t.disturbs {
		return t.known(call, worked...)
	}
	return call()
}
