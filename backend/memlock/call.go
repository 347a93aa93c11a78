package memlock

import "context"

// request makes one exchange with the world: f with the world locked. It may come late.
func request[Res any](ctx context.Context, d *Driver, method string, f func() (Res, error)) (res Res, err error) {
	if err := ctx.Err(); err != nil {
		return res, err
	}
	reach := func() (res Res, err error) {
		if err := d.reach(); err != nil {
			return res, err
		}
		defer d.world.exit()
		return f()
	}
	if fault := d.faults.take(method); fault != nil {
		return perform(ctx, d, fault, true, reach)
	}
	return reach()
}

// reach locks the world for an exchange, unless it fails.
func (d *Driver) reach() error {
	d.world.enter()
	err := d.usable()
	if err == nil && d.cut {
		err = ErrCut
	}
	if err != nil {
		d.world.exit()
		return err
	}
	d.exchanges++
	return nil
}

// quick is reach for a call that makes its exchange itself if no fault is asked for: so it allocates nothing. If it
// reports false, the world is not locked, and the call makes a request.
func (d *Driver) quick(ctx context.Context) bool {
	return d.faults.armed.Load() == 0 && ctx.Err() == nil && d.reach() == nil
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
	if err := d.usable(); err != nil {
		return res, nil, err
	}
	res, b, err := f()
	if err != nil || b == nil {
		return res, nil, err
	}
	return res, b.wait(), nil
}
