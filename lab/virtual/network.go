package virtual

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A network delays what a client sends and what it is answered, and gives it a clock that is fast or slow.
type network struct {
	driver.Driver
	rate float64        // of its clock, beside the true one
	base driver.Instant // keeps numbers small enough for their nanoseconds to count as floating point

	mu    sync.Mutex
	rnd   *rand.Rand
	delay time.Duration // at most
}

func (n *network) draw() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.delay == 0 {
		return 0
	}
	return time.Duration(n.rnd.Int64N(int64(n.delay)))
}

func (n *network) set(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// local is a time by the client's own clock, and to is what that is in truth.
func (n *network) local(t driver.Instant) driver.Instant {
	if t == 0 {
		return 0
	}
	return driver.Instant(float64(t-n.base) * n.rate)
}

func (n *network) Now() driver.Instant { return n.local(n.Driver.Now()) }

// over sends a call over the network: request and answer are both late. If the caller does not wait for so long, the
// request arrives all the same.
func over[T any](n *network, ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	there, back := n.draw(), n.draw()
	if there+back == 0 {
		return call(ctx)
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		time.Sleep(there)
		v, err := call(context.WithoutCancel(ctx))
		time.Sleep(back)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (n *network) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	opened, err := n.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	mine := *opened
	mine.Session, mine.Paused = &session{opened.Session, n}, n.local(opened.Paused)
	return &mine, nil
}

func (n *network) Load(ctx context.Context, name string) (driver.Cell, error) {
	return over(n, ctx, func(ctx context.Context) (driver.Cell, error) { return n.Driver.Load(ctx, name) })
}

func (n *network) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return over(n, ctx, func(ctx context.Context) (driver.Cell, error) { return n.Driver.Swap(ctx, s) })
}

type session struct {
	driver.Session
	n *network
}

func (s *session) mine(t driver.Ticket, err error) (driver.Ticket, error) {
	t.Proof = s.n.local(t.Proof)
	return t, err
}

func (s *session) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	return s.mine(over(s.n, ctx, func(ctx context.Context) (driver.Ticket, error) { return s.Session.Join(ctx, r) }))
}

// Await waits for news, which come as they come.
func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	got, err := s.Session.Await(ctx, t)
	if d := s.n.draw(); d > 0 && err == nil {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return s.mine(got, context.Cause(ctx))
		}
	}
	return s.mine(got, err)
}

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	_, err := over(s.n, ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Session.Leave(ctx, t, clean)
	})
	return err
}

func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	all, err := over(s.n, ctx, func(ctx context.Context) ([]driver.Renewed, error) {
		return s.Session.Renew(ctx, known)
	})
	for i := range all {
		all[i].Proof = s.n.local(all[i].Proof)
	}
	return all, err
}
