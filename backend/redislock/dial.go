package redislock

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// conns are the open connections of a client of our own, so that Close can end
// calls to a server that does not answer.
type conns struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

type conn struct {
	net.Conn
	of *conns
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (s *conns) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	var raw net.Conn
	var err error
	if config != nil {
		raw, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	} else {
		raw, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	c := &conn{raw, s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	if s.open == nil {
		s.open = map[*conn]struct{}{}
	}
	s.open[c] = struct{}{}
	return c, nil
}

func (s *conns) close() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
}

// dial is rueidis.NewClient that ends with ctx.
func dial(ctx context.Context, o rueidis.ClientOption, s *conns) (rueidis.Client, error) {
	o.DialCtxFn = s.dial
	type result struct {
		client rueidis.Client
		err    error
	}
	done := make(chan result, 1)
	go func() {
		c, err := rueidis.NewClient(o)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		return r.client, r.err
	case <-ctx.Done():
		s.close()
		if r := <-done; r.client != nil {
			r.client.Close()
		}
		return nil, ctx.Err()
	}
}
