package exchange

import "context"

// settle has a queue settled that an exchange has found unsettled. While that is under way, it
// has it done once more: what was found meanwhile may not have been seen.
func (d *Driver) settle(queue string) {
	if !d.settling.Begin(queue) {
		return
	}
	d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
		defer cancel()
		for more := true; more; more = d.settling.More(queue) {
			if d.settleAll(ctx, queue) != nil { // heartbeats find the queue unsettled again
				d.settling.End(queue)
				return
			}
		}
	})
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
