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
	if fault := d.faults.take(method); fault != nil {
		return faulty(ctx, d, fault, on, f, arg)
	}
	return exchange(d, on, f, arg)
}

func exchange[On, Arg, Res any](d *Driver, on On, f func(On, Arg) (Res, error), arg Arg) (res Res, err error) {
	w := d.world
	w.enter()
	switch {
	case d.closed:
		err = errClosed
	case d.cut:
		err = ErrCut
	default:
		d.exchanges++
		res, err = f(on, arg)
	}
	w.exit()
	return res, err
}

// faulty is apart from call, because what it passes on escapes.
func faulty[On, Arg, Res any](ctx context.Context, d *Driver, f *fault, on On, do func(On, Arg) (Res, error), arg Arg) (Res, error) {
	return perform(ctx, d, f, true, func() (Res, error) { return exchange(d, on, do, arg) })
}

// request is call for an exchange that may allocate.
func request[Res any](ctx context.Context, d *Driver, method string, f func() (Res, error)) (Res, error) {
	return call(ctx, d, method, f, func(f func() (Res, error), _ none) (Res, error) { return f() }, none{})
}

// change is request without a result.
func change(ctx context.Context, d *Driver, method string, f func() error) error {
	_, err := request(ctx, d, method, func() (none, error) { return none{}, f() })
	return err
}

// none is the result of a call that has none.
type none struct{}

// wait asks f until it returns no bell; then that is the result.
func wait[Res any](ctx context.Context, d *Driver, method string, f func() (Res, *bell, error)) (Res, error) {
	if err := ctx.Err(); err != nil {
		var zero Res
		return zero, err
	}
	listen := func() (Res, error) {
		for {
			res, heard, err := attempt(d, f)
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
	if fault := d.faults.take(method); fault != nil {
		return perform(ctx, d, fault, false, listen)
	}
	return listen()
}

func attempt[Res any](d *Driver, f func() (Res, *bell, error)) (res Res, heard <-chan struct{}, err error) {
	w := d.world
	w.enter()
	defer w.exit()
	if d.closed {
		return res, nil, errClosed
	}
	res, b, err := f()
	if b != nil {
		return res, b.wait(), nil
	}
	return res, nil, err
}
