// Package calls makes drivers and sessions whose calls go through one function, so that something can be done to
// each of them in one place.
package calls

import (
	"context"
	"reflect"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A Func makes the call of a method with its arguments, and returns the result, if the method has one.
type Func func(ctx context.Context, method string, args ...any) (any, error)

// On calls the methods of a driver, of a session, or of what stands for one of these.
func On(target any) Func {
	return func(ctx context.Context, name string, args ...any) (result any, err error) {
		method := reflect.ValueOf(target).MethodByName(name)
		var in []reflect.Value
		if method.Type().NumIn() > len(args) {
			in = append(in, reflect.ValueOf(ctx))
		}
		for _, arg := range args {
			in = append(in, reflect.ValueOf(arg))
		}
		for _, out := range method.Call(in) {
			if e, ok := out.Interface().(error); ok {
				err = e
			} else if out.Kind() != reflect.Interface {
				result = out.Interface()
			}
		}
		return result, err
	}
}

// Result is what a call has returned, and nothing with an error.
func Result[T any](result any, err error) (T, error) {
	if err != nil {
		result = nil
	}
	r, _ := result.(T)
	return r, err
}

// failed is the error of a call without a result.
func failed(_ any, err error) error { return err }

// Driver is a driver whose calls go through Do. Lists, Close, and methods without an error do not.
type Driver struct {
	driver.Driver
	Do Func
}

// Session is a session whose calls go through Do.
type Session struct{ Do Func }

// Open implements [driver.Driver].
func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	return Result[*driver.Opened](d.Do(ctx, "Open", o))
}

// Load implements [driver.Driver].
func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	return Result[driver.Cell](d.Do(ctx, "Load", name))
}

// Swap implements [driver.Driver].
func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return Result[driver.Cell](d.Do(ctx, "Swap", s))
}

// Watch implements [driver.Driver].
func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	return Result[driver.Cell](d.Do(ctx, "Watch", name, after))
}

// Follow implements [driver.Driver].
func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	return Result[driver.Queue](d.Do(ctx, "Follow", queue, after))
}

// Ask implements [driver.Driver].
func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return failed(d.Do(ctx, "Ask", queue, id, what))
}

// Raise implements [driver.Driver].
func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	return failed(d.Do(ctx, "Raise", queue, floor))
}

// Resize implements [driver.Driver].
func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	return failed(d.Do(ctx, "Resize", queue, capacity))
}

// Join implements [driver.Session].
func (s *Session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	return Result[driver.Ticket](s.Do(ctx, "Join", r))
}

// Await implements [driver.Session].
func (s *Session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	return Result[driver.Ticket](s.Do(ctx, "Await", t))
}

// Shrink implements [driver.Session].
func (s *Session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return failed(s.Do(ctx, "Shrink", t, units))
}

// Keep implements [driver.Session].
func (s *Session) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	return failed(s.Do(ctx, "Keep", t, d))
}

// Leave implements [driver.Session].
func (s *Session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return failed(s.Do(ctx, "Leave", t, clean))
}

// Renew implements [driver.Session].
func (s *Session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	return Result[[]driver.Renewed](s.Do(ctx, "Renew", known))
}

// Signals implements [driver.Session].
func (s *Session) Signals(ctx context.Context) (driver.Signal, error) {
	return Result[driver.Signal](s.Do(ctx, "Signals"))
}

// Close implements [driver.Session].
func (s *Session) Close(ctx context.Context) error { return failed(s.Do(ctx, "Close")) }
