package suite

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A Hook stands between the caller and a driver: it makes the call itself, or not, and decides which error the
// caller sees.
type Hook func(ctx context.Context, method string, call func(context.Context) error) error

// Hooked is the driver with a hook at each method of it and of its sessions that exchanges something, but for
// the lists, Check and Signals.
func Hooked(d driver.Driver, h Hook) driver.Driver { return &hooked{d, h} }

type hooked struct {
	driver.Driver
	hook Hook
}

type hookedSession struct {
	driver.Session
	hook Hook
}

// through makes a call that returns something, which is nothing with an error.
func through[T any](ctx context.Context, h Hook, method string, call func(context.Context) (T, error)) (v T, err error) {
	if err = h(ctx, method, func(ctx context.Context) (err error) { v, err = call(ctx); return err }); err != nil {
		var none T
		return none, err
	}
	return v, nil
}

func (d *hooked) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	return through(ctx, d.hook, "Open", func(ctx context.Context) (*driver.Opened, error) {
		s, err := d.Driver.Open(ctx, o)
		if err == nil {
			s.Session = &hookedSession{s.Session, d.hook}
		}
		return s, err
	})
}

func (d *hooked) Load(ctx context.Context, name string) (driver.Cell, error) {
	return through(ctx, d.hook, "Load", func(ctx context.Context) (driver.Cell, error) { return d.Driver.Load(ctx, name) })
}

func (d *hooked) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return through(ctx, d.hook, "Swap", func(ctx context.Context) (driver.Cell, error) { return d.Driver.Swap(ctx, s) })
}

func (d *hooked) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	return through(ctx, d.hook, "Watch", func(ctx context.Context) (driver.Cell, error) { return d.Driver.Watch(ctx, name, after) })
}

func (d *hooked) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	return through(ctx, d.hook, "Follow", func(ctx context.Context) (driver.Queue, error) { return d.Driver.Follow(ctx, queue, after) })
}

func (d *hooked) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return d.hook(ctx, "Ask", func(ctx context.Context) error { return d.Driver.Ask(ctx, queue, id, what) })
}

func (d *hooked) Raise(ctx context.Context, queue string, floor uint64) error {
	return d.hook(ctx, "Raise", func(ctx context.Context) error { return d.Driver.Raise(ctx, queue, floor) })
}

func (d *hooked) Resize(ctx context.Context, queue string, capacity int64) error {
	return d.hook(ctx, "Resize", func(ctx context.Context) error { return d.Driver.Resize(ctx, queue, capacity) })
}

func (s *hookedSession) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	return through(ctx, s.hook, "Join", func(ctx context.Context) (driver.Ticket, error) { return s.Session.Join(ctx, r) })
}

func (s *hookedSession) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	return through(ctx, s.hook, "Await", func(ctx context.Context) (driver.Ticket, error) { return s.Session.Await(ctx, t) })
}

func (s *hookedSession) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return s.hook(ctx, "Shrink", func(ctx context.Context) error { return s.Session.Shrink(ctx, t, units) })
}

func (s *hookedSession) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	return s.hook(ctx, "Keep", func(ctx context.Context) error { return s.Session.Keep(ctx, t, d) })
}

func (s *hookedSession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return s.hook(ctx, "Leave", func(ctx context.Context) error { return s.Session.Leave(ctx, t, clean) })
}

func (s *hookedSession) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	return through(ctx, s.hook, "Renew", func(ctx context.Context) ([]driver.Renewed, error) { return s.Session.Renew(ctx, known) })
}

func (s *hookedSession) Close(ctx context.Context) error {
	return s.hook(ctx, "Close", func(ctx context.Context) error { return s.Session.Close(ctx) })
}
