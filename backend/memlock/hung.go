package memlock

import (
	"context"
	"sync"
)

// Hung is a call that hangs, or will.
type Hung struct {
	f       *Faults
	reached chan struct{}
	release chan struct{}

	mu       sync.Mutex
	hanging  bool
	released bool
	lost     bool     // written before release is closed
	effects  []func() // of calls whose callers have gone away
}

func newHung(f *Faults) *Hung {
	return &Hung{f: f, reached: make(chan struct{}), release: make(chan struct{})}
}

// Reached is closed when a call hangs.
func (h *Hung) Reached() <-chan struct{} { return h.reached }

// Deliver releases the calls that hang; they have their effect and return, and
// no more calls hang. The effects of calls whose callers had gone away have
// happened when Deliver returns.
func (h *Hung) Deliver() { h.end(false) }

// Lose releases the calls that hang; they return [ErrFailed] and never have an
// effect, or [ErrReply] if they had it before. No more calls hang.
func (h *Hung) Lose() { h.end(true) }

func (h *Hung) end(lost bool) {
	h.f.disarm(func(x *fault) bool { return x.hung == h })
	for _, effect := range h.free(lost) {
		effect()
	}
}

// free returns the effects that are to happen now.
func (h *Hung) free(lost bool) []func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return nil
	}
	h.released, h.lost = true, lost
	close(h.release)
	if lost {
		return nil
	}
	return h.effects
}

// hang returns when the call is released, or with the reason why the caller
// goes away before; its effect, if there is one, is then left behind.
func (h *Hung) hang(ctx context.Context, d *Driver, deaf bool, effect func()) error {
	h.mu.Lock()
	if !h.hanging {
		h.hanging = true
		close(h.reached)
	}
	h.mu.Unlock()
	gone := ctx.Done()
	if deaf {
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
	if h.released {
		return nil
	}
	if effect != nil {
		h.effects = append(h.effects, effect)
	}
	return ctx.Err()
}
