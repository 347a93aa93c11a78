package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/rpc"
	"sync"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/calls"
)

// Work is what a process does with a driver on its own.
type Work func(ctx context.Context, d driver.Driver, args []byte) error

// Serve serves calls until the other side hangs up. The driver is opened by the
// URL of the first call if it is nil, and closed at the end.
func Serve(conn io.ReadWriteCloser, d driver.Driver, work map[string]Work) {
	s := &Server{driver: d, work: work, cancel: map[uint64]context.CancelFunc{}, early: map[uint64]bool{}}
	r := rpc.NewServer()
	if err := r.RegisterName("Server", s); err != nil {
		panic(err)
	}
	r.ServeConn(conn)
	if s.driver != nil {
		s.driver.Close()
	}
}

// Server has the methods that are called over the connection.
type Server struct {
	mu       sync.Mutex
	driver   driver.Driver
	sessions []driver.Session
	cancel   map[uint64]context.CancelFunc
	early    map[uint64]bool // cancelled before they have begun
	work     map[string]Work
}

// Do makes a call.
func (s *Server) Do(c Call, r *Reply) (none error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	s.cancel[c.ID] = cancel
	if s.early[c.ID] {
		cancel()
	}
	var on any = served{s.driver, s}
	if c.Session > 0 {
		on = s.sessions[c.Session-1]
	} else if s.driver == nil && c.Method != "Dial" { // Close has overtaken it
		on = nil
	}
	s.mu.Unlock()
	err := errors.New("the driver is closed")
	if on != nil {
		r.Result, err = calls.On(on)(ctx, c.Method, c.Args...)
	}
	s.mu.Lock()
	delete(s.cancel, c.ID)
	s.mu.Unlock()
	if err == nil {
		return nil
	}
	r.Error, r.Permanent = err.Error(), driver.IsPermanent(err)
	for i, known := range knownErrors {
		if errors.Is(err, known) {
			r.Known = i + 1
		}
	}
	return nil
}

// Cancel ends a call.
func (s *Server) Cancel(id uint64, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancel[id]; cancel != nil {
		cancel()
	} else {
		s.early[id] = true // or it is over
	}
	return nil
}

// served are the methods of a driver whose results do not go over the connection as they are, and two more.
type served struct {
	driver.Driver
	s *Server
}

func (c served) Dial(ctx context.Context, url string) (driver.Instant, error) {
	if c.Driver == nil {
		u, err := driver.ParseURL(url)
		if err != nil {
			return 0, err
		}
		if c.Driver, err = driver.OpenURL(ctx, u); err != nil {
			return 0, err
		}
		c.s.mu.Lock()
		c.s.driver = c.Driver
		c.s.mu.Unlock()
	}
	return c.Driver.Now(), nil
}

func (c served) Work(ctx context.Context, name string, args []byte) error {
	if c.s.work[name] == nil {
		return fmt.Errorf("no such work: %s", name)
	}
	return c.s.work[name](ctx, c.Driver, args)
}

func (c served) Open(ctx context.Context, o driver.SessionOptions) (opened, error) {
	s, err := c.Driver.Open(ctx, o)
	if err != nil {
		return opened{}, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.sessions = append(c.s.sessions, s.Session)
	return opened{len(c.s.sessions), s.ID, s.TTL}, nil
}

func (c served) Queues(ctx context.Context, prefix string) ([]driver.Queue, error) {
	return list(c.Driver.Queues(ctx, prefix))
}

func (c served) Cells(ctx context.Context, prefix string) ([]string, error) {
	return list(c.Driver.Cells(ctx, prefix))
}

func list[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (c served) Close() error {
	c.s.mu.Lock()
	c.s.driver = nil
	c.s.mu.Unlock()
	return c.Driver.Close()
}
