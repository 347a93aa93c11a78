// Package conn is the connections of a client of Redis that is backend/redislock's own: a call over
// them ends with its context, and what is no answer of Redis ends them.
package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Set are the open connections of a client, so that calls to a server that does not
// answer can be ended: by Close, or with their context.
type Set struct {
	through dialFunc      // of the program; nil if it has none
	timeout time.Duration // of the client, for calls
	watch   watch

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
	life   context.Context // ends with close, and with it every attempt to connect
	end    context.CancelFunc
}

// dialFunc makes a connection, as rueidis has it.
type dialFunc = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error)

func (s *Set) living() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		s.life, s.end = context.WithCancel(context.Background())
		if s.closed {
			s.end()
		}
	}
	return s.life
}

type conn struct {
	net.Conn
	of      *Set
	called  bool         // for a call, which cannot give up before the greeting ends; else see Dedicate
	uses    atomic.Int32 // the first is the greeting of the server
	until   atomic.Int64 // the deadline of the single caller who uses it, in Unix nanoseconds; 0 if there is none
	reading atomic.Bool
	wire    wire
}

func (c *conn) SetDeadline(t time.Time) error {
	c.uses.Add(1)
	c.until.Store(unixNano(t))
	return c.Conn.SetDeadline(t)
}

// unixNano returns 0 for the zero time.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// hasSingleCaller reports whether one waits for an answer, and until when.
func (c *conn) hasSingleCaller() (until int64, ok bool) {
	until = c.until.Load()
	return until, until != 0 && c.reading.Load()
}

func (c *conn) interrupt() { _ = c.Conn.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) Read(b []byte) (int, error) {
	c.reading.Store(true)
	defer c.reading.Store(false)
	n, err := c.Conn.Read(b)
	if bad := c.wire.received(b[:n]); bad != nil {
		return 0, bad
	}
	if err != nil {
		err = c.wire.cut(err)
	}
	return n, err
}

// Write does not fail before the server has said something: whoever reads is told why it has
// closed the connection.
func (c *conn) Write(b []byte) (int, error) {
	c.wire.sent(b)
	n, err := c.Conn.Write(b)
	if err != nil && c.wire.isSilent() {
		return len(b), nil
	}
	return n, err
}

// interrupt ends the connection of the single caller who has the deadline. If there is
// none, the caller waits for a connection: those end that calls have asked for, and to which no server has said a word.
func (s *Set) interrupt(deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for c := range s.open {
		if until, ok := c.hasSingleCaller(); ok && until == unixNano(deadline) {
			found = true
			c.interrupt()
		}
	}
	for c := range s.open {
		if _, ok := c.hasSingleCaller(); ok && !found && c.called && c.uses.Load() == 1 {
			c.interrupt()
		}
	}
}

// EndSilent ends the connections over which nothing has come for so long although an answer is due: the client of Redis
// itself notices after a second and its timeout, whatever the TTL.
func (s *Set) EndSilent(long time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.wire.owes(long) {
			c.interrupt()
		}
	}
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (s *Set) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	called := ctx.Done() != nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.living(), cancel)()
	raw, err := s.reach(ctx, addr, dialer, config)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, of: s, called: called}
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

// reach connects to a host and port, or to a Unix socket.
func (s *Set) reach(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if s.through != nil {
		return within(ctx, dialer.Timeout, func(ctx context.Context) (net.Conn, error) {
			return s.through(ctx, addr, dialer, config)
		}, func(late net.Conn) { late.Close() })
	}
	if config == nil {
		network := "tcp"
		if strings.HasPrefix(addr, "/") {
			network = "unix"
		}
		return dialer.DialContext(ctx, network, addr)
	}
	raw, err := (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", addr)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("TLS: %w (a server without TLS does not answer: write redis://)", err)
	}
	return raw, err
}

// within calls a function of the program, and returns without it when ctx ends or the time is
// over: it may not heed ctx. What it brings after that is dropped.
func within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error), drop func(T)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	go func() {
		if r := <-done; r.err == nil {
			drop(r.value)
		}
	}()
	var none T
	return none, ctx.Err()
}

// Reset has the client connect anew: a name may lead to another server now.
func (s *Set) Reset() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		c.Conn.Close()
	}
}

// Close ends the calls under way.
func (s *Set) Close() {
	s.watch.mu.Lock() // no watch starts any more
	s.mu.Lock()
	s.closed = true
	if s.end != nil {
		s.end()
	}
	s.mu.Unlock()
	s.watch.mu.Unlock()
	s.Reset()
	s.watch.tasks.Wait()
}

// Client is rueidis.NewClient that ends with ctx. It is called once.
func (s *Set) Client(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	s.timeout = o.ConnWriteTimeout
	s.through, o.DialCtxFn = o.DialCtxFn, s.dial
	if ask := o.AuthCredentialsFn; ask != nil {
		o.AuthCredentialsFn = func(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			got, err := within(s.living(), o.Dialer.Timeout, func(context.Context) (rueidis.AuthCredentials, error) { return ask(of) }, func(rueidis.AuthCredentials) {})
			if err != nil {
				err = fmt.Errorf("credentials: %w", err)
			}
			return got, err
		}
	}
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
		s.Close()
		if r := <-done; r.client != nil {
			r.client.Close()
		}
		return nil, ctx.Err()
	}
}
