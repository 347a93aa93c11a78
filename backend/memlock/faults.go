package memlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	"Open", "Load", "Swap", "Watch", "Follow", "Queues", "Ask", "Raise", "Check",
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
// for every call. The method is given by its name, such as "Join"; "" is any of
// them. "Close" is that of a session. It panics if there is no such method.
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

// Hang makes the call wait until it is released or its context ends. A call
// that hung before its effect has it when it is delivered, even if its caller
// has gone away by then, like a message that was long on its way.
func (p Point) Hang() *Hung { return p.arm(&fault{hung: newHung()}) }

// Stick makes the call wait until it is released, whatever its context says.
func (p Point) Stick() *Hung { return p.arm(&fault{hung: newHung(), deaf: true}) }

func (p Point) arm(fault *fault) *Hung {
	fault.point = p
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.list = append(p.f.list, fault)
	p.f.armed.Store(int32(len(p.f.list)))
	return fault.hung
}

// Clear takes back all faults that no call has reached. Calls that hang go on
// hanging; a cut stays.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
	f.armed.Store(0)
}

// Waiting counts the faults that no call has reached yet, so that a test can
// tell that its fault has happened. One for every call always counts.
func (f *Faults) Waiting() int { return int(f.armed.Load()) }

// Cut parts the client from the world: calls fail with [ErrCut], those that
// wait learn nothing, and every session is told by the signal driver.Doubt.
// Meanwhile time goes on, and tickets that are not renewed leave.
func (f *Faults) Cut() {
	w := f.d.world
	w.enter()
	defer w.exit()
	f.d.cut = true
	for s := range f.d.sessions {
		s.doubt = true
		s.bell.ring()
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
	for s := range f.d.sessions {
		s.end()
	}
}

// Hung is a call that hangs, or will.
type Hung struct {
	reached chan struct{}
	release chan struct{}

	mu      sync.Mutex
	hangs   int
	lost    bool
	ended   bool
	effects []func() // of calls whose callers have gone away
}

func newHung() *Hung {
	return &Hung{reached: make(chan struct{}), release: make(chan struct{})}
}

// Reached is closed when a call hangs.
func (h *Hung) Reached() <-chan struct{} { return h.reached }

// Deliver releases the calls that hang; they have their effect and return. When
// it returns, this is true also for the effects of callers that had gone away.
func (h *Hung) Deliver() { h.end(false) }

// Lose releases the calls that hang; they return [ErrFailed] or [ErrReply], and
// have no effect if they had none before.
func (h *Hung) Lose() { h.end(true) }

func (h *Hung) end(lost bool) {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	h.ended, h.lost = true, lost
	effects := h.effects
	h.effects = nil
	close(h.release)
	h.mu.Unlock()
	if lost {
		return
	}
	for _, effect := range effects {
		effect()
	}
}

type fault struct {
	point Point
	hung  *Hung // nil: fails
	deaf  bool
}

// take counts a call, and returns the fault that it has run into.
func (f *Faults) take(method string) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hit *fault
	f.list = slices.DeleteFunc(f.list, func(x *fault) bool {
		if x.point.method != "" && x.point.method != method {
			return false
		}
		if x.hung != nil && x.point.call == 0 && x.hung.isEnded() {
			return true
		}
		if x.point.call == 0 {
			if hit == nil {
				hit = x
			}
			return false
		}
		if x.point.call > 1 {
			x.point.call--
			return false
		}
		if hit == nil {
			hit = x
			return true
		}
		return false // two for one call: this one takes the next
	})
	f.armed.Store(int32(len(f.list)))
	return hit
}

func (h *Hung) isEnded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// perform makes a call that runs into a fault. With late, the effect may come
// after the caller has gone away.
func perform[Res any](ctx context.Context, d *Driver, f *fault, late bool, effect func() (Res, error)) (Res, error) {
	var zero Res
	lost := ErrFailed
	if f.point.after {
		lost = ErrReply
		res, err := effect()
		if f.hung == nil {
			return zero, lost
		}
		if err := f.hang(ctx, d, nil); err != nil {
			return zero, err
		}
		if f.hung.lost {
			return zero, lost
		}
		return res, err
	}
	if f.hung == nil {
		return zero, lost
	}
	var orphan func()
	if late {
		orphan = func() { effect() }
	}
	if err := f.hang(ctx, d, orphan); err != nil {
		return zero, err
	}
	if f.hung.lost {
		return zero, lost
	}
	return effect()
}

// hang returns when the call is released, or with the reason why it goes on
// without that. The effect is then left behind.
func (f *fault) hang(ctx context.Context, d *Driver, effect func()) error {
	h := f.hung
	h.mu.Lock()
	if h.hangs++; h.hangs == 1 {
		close(h.reached)
	}
	h.mu.Unlock()
	gone := ctx.Done()
	if f.deaf {
		gone = nil
	}
	select {
	case <-h.release:
		return nil
	case <-d.done:
		return errClosed
	case <-gone:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil
	}
	if effect != nil {
		h.effects = append(h.effects, effect)
	}
	return ctx.Err()
}
