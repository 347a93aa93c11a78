package play

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// A gate is a driver that a worker can be cut off with. While it is shut, no call of a mutex and of its session gets to
// the backend, and no answer back: each waits until the gate opens or its context ends. A worker makes no other calls.
type gate struct {
	driver.Driver
	calls sync.RWMutex // each exchange holds it for reading; the calls that wait do not

	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func newGate(d driver.Driver) *gate {
	g := &gate{Driver: d, open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) isOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		g.open = make(chan struct{})
	}
}

func (g *gate) mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		close(g.open)
	}
}

// pass returns when the gate is open.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait makes a call that may take long.
func wait[T any](ctx context.Context, g *gate, call func() (T, error)) (T, error) {
	var none T
	if err := g.pass(ctx); err != nil {
		return none, err
	}
	v, err := call()
	if lost := g.pass(ctx); lost != nil {
		return none, lost
	}
	return v, err
}

// exchange makes a call that asks the backend, and is done. A process that is stopped in the middle of one keeps all
// others from writing to a SQLite file: see worker.halt.
func exchange[T any](ctx context.Context, g *gate, call func() (T, error)) (T, error) {
	return wait(ctx, g, func() (T, error) {
		g.calls.RLock()
		defer g.calls.RUnlock()
		return call()
	})
}

// send is exchange for a call without an answer.
func send(ctx context.Context, g *gate, call func() error) error {
	_, err := exchange(ctx, g, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (g *gate) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	s, err := exchange(ctx, g, func() (*driver.Opened, error) { return g.Driver.Open(ctx, o) })
	if err == nil {
		s.Session = &gatedSession{s.Session, g}
	}
	return s, err
}

// Close opens the gate, so that it ends every call.
func (g *gate) Close() error {
	g.mend()
	return g.Driver.Close()
}

type gatedSession struct {
	driver.Session
	g *gate
}

func (s *gatedSession) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	return exchange(ctx, s.g, func() (driver.Ticket, error) { return s.Session.Join(ctx, r) })
}

func (s *gatedSession) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	return wait(ctx, s.g, func() (driver.Ticket, error) { return s.Session.Await(ctx, t) })
}

func (s *gatedSession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return send(ctx, s.g, func() error { return s.Session.Leave(ctx, t, clean) })
}

func (s *gatedSession) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	return exchange(ctx, s.g, func() ([]driver.Renewed, error) { return s.Session.Renew(ctx, known) })
}

func (s *gatedSession) Signals(ctx context.Context) (driver.Signal, error) {
	return wait(ctx, s.g, func() (driver.Signal, error) { return s.Session.Signals(ctx) })
}

func (s *gatedSession) Close(ctx context.Context) error {
	return send(ctx, s.g, func() error { return s.Session.Close(ctx) })
}
