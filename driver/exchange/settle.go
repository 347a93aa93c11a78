package exchange

import "context"

// settle has a queue settled that an exchange has found unsettled. If it fails, heartbeats find the queue
// unsettled again.
func (d *Driver) settle(queue string) {
	d.once("settle "+queue, func(ctx context.Context) error { return d.settleAll(ctx, queue) })
}

// settleAll settles a queue until nothing more is to be done.
func (d *Driver) settleAll(ctx context.Context, queue string) error {
	for {
		unsettled, err := callStore(ctx, d, Store.Settle, queue)
		if err != nil || !unsettled {
			return err
		}
	}
}

// change makes an exchange that changes a queue, and may leave it unsettled.
func (d *Driver) change(ctx context.Context, queue string, exchange func(context.Context) (unsettled bool, err error)) error {
	unsettled, err := call(ctx, d, exchange)
	if unsettled {
		d.settle(queue)
	}
	return err
}
