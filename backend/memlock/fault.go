package memlock

import (
	"context"
	"slices"
)

type fault struct {
	point   Point
	refused error // what the call says, if not that it failed
	hung    *Hung // nil: the call fails
	deaf    bool  // hangs whatever the context says
}

// take counts a call, and returns the fault that it has run into.
func (f *Faults) take(method string) *fault {
	if f.armed.Load() == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var hit *fault
	f.list = slices.DeleteFunc(f.list, func(x *fault) bool {
		switch p := &x.point; {
		case p.method != "" && p.method != method:
			return false
		case p.call > 1:
			p.call--
			return false
		case hit != nil: // the call is taken: this fault gets the next one
			return false
		default:
			hit = x
			return p.call == 1
		}
	})
	f.armed.Store(int32(len(f.list)))
	return hit
}

// perform makes a call that runs into a fault. With late, its effect can come
// after its caller has gone away.
func perform[Res any](ctx context.Context, d *Driver, f *fault, late bool, effect func() (Res, error)) (Res, error) {
	if f.point.after {
		res, err := effect()
		if lost := f.stop(ctx, d, nil); lost != nil {
			var zero Res
			return zero, lost
		}
		return res, err
	}
	var orphan func()
	if late {
		orphan = func() { effect() }
	}
	if lost := f.stop(ctx, d, orphan); lost != nil {
		var zero Res
		return zero, lost
	}
	return effect()
}

// stop returns nil if the call, or its reply, goes on after all.
func (f *fault) stop(ctx context.Context, d *Driver, orphan func()) error {
	if f.hung != nil {
		if err := f.hung.hang(ctx, d, f.deaf, orphan); err != nil {
			return err
		}
		if !f.hung.lost {
			return nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.refused != nil:
		return f.refused
	case f.point.after:
		return ErrReply
	}
	return ErrFailed
}
