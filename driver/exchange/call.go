package exchange

import (
	"context"
	"time"
)

// do makes one exchange.
func do(ctx context.Context, d *Driver, exchange func(context.Context) error) error {
	_, err := call(ctx, d, func(ctx context.Context) (struct{}, error) { return struct{}{}, exchange(ctx) })
	return err
}

// call makes one exchange that has a result. It returns when ctx ends, or the driver is closed.
func call[T any](ctx context.Context, d *Driver, exchange func(context.Context) (T, error)) (T, error) {
	return callStore(ctx, d, func(_ Store, ctx context.Context, exchange func(context.Context) (T, error)) (T, error) {
		return exchange(ctx)
	}, exchange)
}

// callStore is call for a method of the store, such as Store.Settle, and its argument.
func callStore[A, T any](ctx context.Context, d *Driver, exchange func(Store, context.Context, A) (T, error), arg A) (result T, err error) {
	release, err := d.room(ctx)
	if err != nil {
		return result, err
	}
	return callWithin(ctx, d, release, exchange, arg)
}

// room waits until the limits allow an exchange. One of a store that is Bounded needs no room.
func (d *Driver) room(ctx context.Context) (release func(), err error) {
	if err := d.usable(ctx); err != nil || d.traits.Bounded {
		return func() {}, err
	}
	if release, err = d.limiter.acquire(ctx, d.ctx); err != nil {
		return nil, d.failed(ctx, err)
	}
	return release, nil
}

// callWithin makes an exchange that has room, and calls release when it has ended, which may be after
// this returns. With nothing to release, it ends with this call.
func callWithin[A, T any](ctx context.Context, d *Driver, release func(), exchange func(Store, context.Context, A) (T, error), arg A) (result T, err error) {
	d.exchanges.Add(1)
	if d.repeats {
		exchange = twice(exchange)
	}
	if release == nil || d.traits.Bounded {
		result, err = exchange(d.store, ctx, arg)
	} else {
		result, err = detached(ctx, d, release, exchange, arg)
	}
	if err != nil {
		return result, d.failed(ctx, err)
	}
	return result, nil
}

// twice makes an exchange that the network brings twice, the reply to the second one only.
func twice[A, T any](exchange func(Store, context.Context, A) (T, error)) func(Store, context.Context, A) (T, error) {
	return func(store Store, ctx context.Context, arg A) (T, error) {
		_, _ = exchange(store, ctx, arg)
		return exchange(store, ctx, arg)
	}
}

// attached makes an exchange of one change in its caller's goroutine. When ctx ends it goes on for a moment, and is cut
// then: the backend may still be busy with it.
func (d *Driver) attached(ctx context.Context, c Change) (st Status, err error, cut bool) {
	if !d.begin() {
		return st, errClosed, false
	}
	defer d.tasks.Done()
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(d.ctx, end)()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(moment, end) })()
	st, err = callWithin(own, d, nil, changeOne, c)
	if own.Err() == nil {
		return st, err, false
	}
	d.patientUntil.Store(int64(d.now().Add(Linger)))
	return st, d.failed(ctx, err), true
}

// prompt says whether the exchange of a change is attached. After one that was cut, none is for a while: each costs a
// connection, which has to be made anew, and a server that is busy would have many of these.
func (d *Driver) prompt(ctx context.Context, c Change) bool {
	may := d.traits.Prompt
	return may != nil && (classOf(ctx) == ofHolder || may(c)) && int64(d.now()) >= d.patientUntil.Load()
}

// moment is what an exchange that is attached gets when its caller gives up: it is about to end, most likely.
const moment = 20 * time.Millisecond

// detached makes an exchange that goes on for a while when its caller gives up, and calls release
// when it has ended: until then the backend may be busy with it, and its connection is not free.
func detached[A, T any](ctx context.Context, d *Driver, release func(), exchange func(Store, context.Context, A) (T, error), arg A) (T, error) {
	type reply struct {
		result T
		err    error
	}
	replied := make(chan reply, 1)
	own, cut := context.WithCancel(context.WithoutCancel(ctx))
	runs := d.background(func(closed context.Context) {
		defer cut()
		defer release()
		defer context.AfterFunc(closed, cut)()
		var r reply
		r.result, r.err = exchange(d.store, own, arg)
		replied <- r
	})
	var none T
	if !runs {
		cut()
		release()
		return none, errClosed
	}
	select {
	case r := <-replied:
		return r.result, r.err
	case <-d.ctx.Done():
		return none, errClosed
	case <-ctx.Done():
	}
	select {
	case r := <-replied: // at the same moment
		return r.result, r.err
	default:
	}
	time.AfterFunc(classOf(ctx).lingers(), cut)
	return none, ctx.Err()
}

// Linger is for how long an exchange goes on when its caller gives up; then its context ends.
// Ended at once it would give up a connection, while the server may go on waiting for what the
// exchange has asked for: many callers who give up would have as many of those.
const Linger = 6 * time.Second

// lingers is shorter for what is held: its connection may lead nowhere, and the next try needs
// another one soon.
func (c class) lingers() time.Duration {
	if c == heartbeat || c == ofHolder {
		return Linger / 6
	}
	return Linger
}

// class says what an exchange is for. It decides which connections the exchange may use.
type class uint8

const (
	ordinary  class = iota
	heartbeat       // by which tickets are kept
	ofHolder        // Leave, Shrink and Keep of a holder, and End
	ofWaiter        // its Leave
)

type classKey struct{}

func (d *Driver) with(ctx context.Context, c class) context.Context {
	if d.traits.Bounded {
		return ctx // no connection is chosen by it
	}
	return context.WithValue(ctx, classKey{}, c)
}

func classOf(ctx context.Context) class {
	c, _ := ctx.Value(classKey{}).(class)
	return c
}
