package memlock

import "context"

// call makes one exchange with the world: f(on, arg) with the world locked. It
// takes the argument apart from the function, so that a call without a fault
// allocates nothing.
func call[On, Arg, Res any](ctx context.Context, d *Driver, method string, on On, f func(On, Arg) (Res, error), arg Arg) (Res, error) {
	if err := ctx.Err(); err != nil {
		var zero Res
		return zero, err
	}
	if d.faults.armed.Load() > 0 {
		if fault := d.faults.take(method); fault != nil {
			return faulty(ctx, d, fault, on, f, arg)
		}
	}
	return exchange(d, on, f, arg)
}

func exchange[On, Arg, Res any](d *Driver, on On, f func(On, Arg) (Res, error), arg Arg) (res Res, err error) {
	w := d.world
	w.enter()
	if err = d.reachable(); err == nil {
		d.exchanges++
		res, err = f(on, arg)
	}
	w.exit()
	return res, err
}

func (d *Driver) reachable() error {
	switch {
	case d.closed:
		return errClosed
	case d.cut:
		return ErrCut
	}
	return nil
}

// faulty is apart from call, because what it passes on escapes.
func faulty[On, Arg, Res any](ctx context.Context, d *Driver, f *fault, on On, do func(On, Arg) (Res, error), arg Arg) (Res, error) {
	return perform(ctx, d, f, true, func() (Res, error) { return exchange(d, on, do, arg) })
}

// wait asks f until it returns no bell; then that is the result.
func wait[On, Arg, Res any](ctx context.Context, d *Driver, method string, on On, f func(On, Arg) (Res, *bell, error), arg Arg) (Res, error) {
	if err := ctx.Err(); err != nil {
		var zero Res
		return zero, err
	}
	if d.faults.armed.Load() > 0 {
		if fault := d.faults.take(method); fault != nil {
			return perform(ctx, d, fault, false, func() (Res, error) { return listen(ctx, d, on, f, arg) })
		}
	}
	return listen(ctx, d, on, f, arg)
}

func listen[On, Arg, Res any](ctx context.Context, d *Driver, on On, f func(On, Arg) (Res, *bell, error), arg Arg) (Res, error) {
	for {
		res, heard, err := attempt(d, on, f, arg)
		if heard == nil {
			return res, err
		}
		select {
		case <-heard:
		case <-d.done:
		case <-ctx.Done():
			return res, ctx.Err()
		}
	}
}

func attempt[On, Arg, Res any](d *Driver, on On, f func(On, Arg) (Res, *bell, error), arg Arg) (res Res, heard <-chan struct{}, err error) {
	w := d.world
	w.enter()
	defer w.exit()
	if d.closed {
		return res, nil, errClosed
	}
	res, b, err := f(on, arg)
	if b != nil {
		return res, b.wait(), nil
	}
	return res, nil, err
}
