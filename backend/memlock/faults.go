package memlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/driver"
)

// The errors of faults. As with a real backend, they leave open what became of
// the call.
var (
	ErrFailed = errors.New("memlock: failed on demand")       // before the effect
	ErrReply  = errors.New("memlock: reply lost on demand")   // after the effect
	ErrCut    = errors.New("memlock: cut off from the world") // Faults.Cut
)

// methods can be given to Before and After.
var methods = []string{
	"Open", "Load", "Swap", "Watch", "Follow", "Queues", "Cells", "Ask", "Raise", "Resize", "Check",
	"Join", "Await", "Shrink", "Keep", "Leave", "Renew", "Signals", "Close",
}

// Faults makes the calls of one driver fail on demand. It is safe for
// concurrent use. Nothing fails until it is asked for.
type Faults struct {
	d     *Driver
	armed atomic.Int32 // len(list)

	mu   sync.Mutex
	list []*fault
}

// Faults returns the faults of this client.
func (d *Driver) Faults() *Faults { return &d.faults }

// Point is a place where a call can fail: before it reaches the world, or
// after, on the way of its reply.
type Point struct {
	f      *Faults
	method string
	call   int
	after  bool
}

// Before is the point before the k-th call from now of a method of
// driver.Driver or driver.Session has its effect: k is 1 for the next call, 0
// for every call until [Faults.Clear]. The method is given by its name, such as
// "Join"; "" is any of them. "Close" is that of a session. It panics if there is
// no such method.
func (f *Faults) Before(method string, k int) Point { return f.point(method, k, false) }

// After is the point where the k-th call has had its effect, and its caller
// does not know yet.
func (f *Faults) After(method string, k int) Point { return f.point(method, k, true) }

func (f *Faults) point(method string, k int, after bool) Point {
	if method != "" && !slices.Contains(methods, method) {
		panic(fmt.Sprintf("memlock: no method %q; there are %s", method, strings.Join(methods, ", ")))
	}
	if k < 0 {
		panic(fmt.Sprintf("memlock: call %d is in the past", k))
	}
	return Point{f, method, k, after}
}

// Fail makes the call return [ErrFailed], or after its effect [ErrReply].
func (p Point) Fail() { p.arm(&fault{}) }

// Refuse makes the call return err as a permanent error: a right is missing, or the
// server is read-only.
func (p Point) Refuse(err error) { p.arm(&fault{refused: driver.Permanent(err)}) }

// Hang makes the call wait until it is released or its context ends. A call
// that hung before its effect has it when it is delivered, even if its caller
// has gone away by then, like a message that was long on its way.
func (p Point) Hang() *Hung { return p.arm(&fault{hung: newHung(p.f)}) }

// Stick makes the call wait until it is released, whatever its context says.
func (p Point) Stick() *Hung { return p.arm(&fault{hung: newHung(p.f), deaf: true}) }

func (p Point) arm(fault *fault) *Hung {
	fault.point = p
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.list = append(p.f.list, fault)
	p.f.armed.Store(int32(len(p.f.list)))
	return fault.hung
}

// Clear takes back all faults that no call has reached, and those for every
// call. Calls that hang go on hanging; a cut stays.
func (f *Faults) Clear() { f.disarm(func(*fault) bool { return true }) }

// Waiting counts the faults that no call has reached yet, so that a test can
// tell that its fault has happened. One for every call counts until it is taken
// back.
func (f *Faults) Waiting() int { return int(f.armed.Load()) }

func (f *Faults) disarm(which func(*fault) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.DeleteFunc(f.list, which)
	f.armed.Store(int32(len(f.list)))
}

// Cut parts the client from the world: calls fail with [ErrCut], those that
// wait learn nothing, and every session is told by the signal driver.Doubt.
// Meanwhile time goes on, and tickets that are not renewed leave. To make the
// calls hang instead of failing, add Before("", 0).Hang().
func (f *Faults) Cut() {
	w := f.d.world
	w.enter()
	defer w.exit()
	f.d.cut = true
	for s := range w.sessions {
		if s.d == f.d {
			s.signals = append([]driver.Signal{{Demand: driver.Doubt}}, s.signals...)
			s.bell.ring()
		}
	}
}

// Heal ends a Cut.
func (f *Faults) Heal() {
	w := f.d.world
	w.enter()
	defer w.exit()
	f.d.cut = false
	f.d.healed.ring()
}

// Expire ends the sessions of the client as if the backend had given them up:
// all their tickets without a fixed end are gone.
func (f *Faults) Expire() {
	w := f.d.world
	w.enter()
	defer w.exit()
	for s := range w.sessions {
		if s.d == f.d {
			s.end()
		}
	}
}
