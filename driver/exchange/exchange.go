package exchange

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// do makes one exchange.
func (d *Driver) do(ctx context.Context, exchange func(context.Context) error) error {
	_, err := ask(ctx, d, func(ctx context.Context) (struct{}, error) { return struct{}{}, exchange(ctx) })
	return err
}

// ask makes one exchange with a result. It returns when ctx ends, or the driver is closed.
func ask[T any](ctx context.Context, d *Driver, exchange func(context.Context) (T, error)) (result T, err error) {
	if err := d.usable(ctx); err != nil {
		return result, err
	}
	return askOnce(ctx, d, func() {}, func() {}, exchange)
}

// askInTurn is ask of one of many that may come to a queue at the same time. It says when the
// turn has come: unless it does, nothing is sent.
func askInTurn[T any](ctx context.Context, d *Driver, queue string, begins func(), exchange func(context.Context) (T, error)) (result T, err error) {
	if err := d.usable(ctx); err != nil {
		return result, err
	}
	next, err := d.turns.enter(ctx, d.ctx, queue)
	if err != nil {
		return result, d.failed(ctx, err)
	}
	return askOnce(ctx, d, next, begins, exchange)
}

// askOnce makes an exchange as soon as there is a way to a connection, and calls next when
// that has ended, or was not begun.
func askOnce[T any](ctx context.Context, d *Driver, next, begins func(), exchange func(context.Context) (T, error)) (result T, err error) {
	leave, err := d.lanes.enter(ctx, d.ctx)
	if err != nil {
		next()
		return result, d.failed(ctx, err)
	}
	begins()
	d.exchanges.Add(1)
	began := driver.Now()
	if result, err = finish(ctx, d, func() { leave(); next() }, exchange); err == nil {
		d.took.Store(int64(driver.Now().Sub(began)))
	}
	return result, d.failed(ctx, err)
}

// finish makes an exchange that goes on for a while if its caller gives up: the database may
// be busy with it, and its connection is not free before that.
func finish[T any](ctx context.Context, d *Driver, leave func(), exchange func(context.Context) (T, error)) (T, error) {
	type answer struct {
		result T
		err    error
	}
	answered := make(chan answer, 1)
	call, cut := context.WithCancel(context.WithoutCancel(ctx))
	began := d.background(func(closed context.Context) {
		defer cut()
		defer leave()
		defer context.AfterFunc(closed, cut)()
		var a answer
		a.result, a.err = exchange(call)
		answered <- a
	})
	var none T
	if !began {
		cut()
		leave()
		return none, errClosed
	}
	select {
	case a := <-answered:
		return a.result, a.err
	case <-d.ctx.Done():
		return none, errClosed
	case <-ctx.Done():
	}
	select {
	case a := <-answered: // at the same moment
		return a.result, a.err
	default:
	}
	time.AfterFunc(goesOn(ctx), cut)
	return none, ctx.Err()
}

// Lanes are the ways to the connections of a pool. Calls for what waits, or may come to wait,
// have one, so that a crowd of them keeps nobody from renewing and releasing what is held.
type Lanes struct {
	calls  chan struct{} // has room for as many as may be under way
	held   chan struct{} // more room, for what is held
	leaves chan struct{} // more room, for withdrawals
}

// NewLanes has so many calls at most use connections at once, and beside them so many that
// are about what is held, and so many that withdraw what waits. Heartbeats go past all.
func NewLanes(calls, held, leaves int) *Lanes {
	return &Lanes{make(chan struct{}, calls), make(chan struct{}, held), make(chan struct{}, leaves)}
}

// Limit has a client use lanes, which others of the same pool may use as well. Without it any
// number of calls may be under way.
func (d *Driver) Limit(l *Lanes) { d.lanes = l }

// enter waits for room, until one of two contexts ends.
func (l *Lanes) enter(ctx, closed context.Context) (leave func(), err error) {
	if l == nil || isHeartbeat(ctx) {
		return func() {}, nil
	}
	var own chan struct{}
	switch {
	case isHeld(ctx):
		own = l.held
	case isWithdrawal(ctx):
		own = l.leaves
	}
	select {
	case l.calls <- struct{}{}:
		return func() { <-l.calls }, nil
	default:
	}
	select {
	case l.calls <- struct{}{}:
		return func() { <-l.calls }, nil
	case own <- struct{}{}:
		return func() { <-own }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-closed.Done():
		return nil, errClosed
	}
}

// Unheard is for how long an exchange goes on when its caller gives up, and keeps its room
// till then. Ended at once it would give up a connection, in whose statement the server may
// go on waiting: many callers who give up would have as many.
const Unheard = 6 * time.Second

// goesOn is the same for one: not for long if it is about what is held. Then its connection
// may lead nowhere, and the next try needs another one.
func goesOn(ctx context.Context) time.Duration {
	if isHeartbeat(ctx) || isHeld(ctx) {
		return Unheard / 6
	}
	return Unheard
}

// heartbeat marks exchanges for which a connection is kept free.
type heartbeat struct{}

func withHeartbeat(ctx context.Context) context.Context {
	return context.WithValue(ctx, heartbeat{}, true)
}

func isHeartbeat(ctx context.Context) bool { return ctx.Value(heartbeat{}) != nil }

// holds marks exchanges about what is held.
type holds struct{}

func withHeld(ctx context.Context) context.Context { return context.WithValue(ctx, holds{}, true) }

func isHeld(ctx context.Context) bool { return ctx.Value(holds{}) != nil }

// withdrawn marks exchanges by which a crowd leaves.
type withdrawn struct{}

func withWithdrawal(ctx context.Context) context.Context {
	return context.WithValue(ctx, withdrawn{}, true)
}

func isWithdrawal(ctx context.Context) bool { return ctx.Value(withdrawn{}) != nil }
