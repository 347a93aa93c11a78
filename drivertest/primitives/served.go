package primitives

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/process"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// role is that of the copies of the test binary in which members live.
const role = "member"

func init() {
	process.Role(role, func(conn io.ReadWriteCloser) {
		s := &Served{leases: map[string]*watched{}, renewed: make(chan struct{}, 1)}
		r := rpc.NewServer()
		if err := r.RegisterName("Member", s); err != nil {
			panic(err)
		}
		r.ServeConn(conn)
		if s.client != nil {
			s.client.Close()
		}
	})
}

// Served is a client in a process of its own, as others call it. (net/rpc wants the
// names of methods and types to be exported.)
type Served struct {
	client  *interlock.Client
	renewed chan struct{}

	mu     sync.Mutex
	leases map[string]*watched
}

// watched is a lease whose holder notes until when it works.
type watched struct {
	lease *interlock.Lease
	over  chan struct{}
	last  int64 // guarded by over
	cause error // guarded by over
}

// Place is where a member opens its client.
type Place struct {
	URL string
	TTL time.Duration
}

// Want is a lock that a member acquires.
type Want struct {
	Kind, Name   string // mutex, candidate or entrance (of a double barrier of two)
	ExpiresAfter time.Duration
	ReportDeath  bool
}

// Grant is what it gets.
type Grant struct {
	ID    string
	Token uint64
}

// Fate is how a lease has ended.
type Fate struct {
	Last int64 // the last moment at which the holder worked
	Lost bool  // its context ended with ErrLost, and so did its Release
	Text string
}

// Open opens the client.
func (s *Served) Open(p Place, _ *struct{}) error {
	u, err := driver.ParseURL(p.URL)
	if err != nil {
		return err
	}
	d, err := driver.OpenURL(context.Background(), u)
	if err != nil {
		return err
	}
	s.client, err = interlock.New(context.Background(), d, interlock.TTL(p.TTL), interlock.Observe(func(_ context.Context, e interlock.Event) {
		if e.Kind == interlock.EventRenewed {
			select {
			case s.renewed <- struct{}{}:
			default:
			}
		}
	}))
	return err
}

// Acquire acquires a lock and works until its context ends.
func (s *Served) Acquire(w Want, g *Grant) error {
	ctx := context.Background()
	var opts []interlock.Option
	if w.ExpiresAfter > 0 {
		opts = append(opts, interlock.ExpiresAfter(w.ExpiresAfter))
	}
	if w.ReportDeath {
		opts = append(opts, interlock.ReportDeath())
	}
	var lease *interlock.Lease
	var err error
	switch w.Kind {
	case "mutex":
		lease, err = s.client.Mutex(w.Name, opts...).Acquire(ctx)
	case "candidate":
		lease, err = s.client.Election(w.Name).Campaign(ctx, "a member")
	case "entrance":
		lease, err = s.client.DoubleBarrier(w.Name, 2).Enter(ctx)
	default:
		err = fmt.Errorf("there is no %q", w.Kind)
	}
	if err != nil {
		return err
	}
	*g = Grant{lease.ID(), lease.Token()}
	h := &watched{lease: lease, over: make(chan struct{})}
	s.mu.Lock()
	s.leases[g.ID] = h
	s.mu.Unlock()
	go h.work()
	return nil
}

// work goes on until the lease is over, as a holder does that looks at its context.
func (h *watched) work() {
	defer close(h.over)
	ctx, cancel := h.lease.Bind(context.Background())
	defer cancel()
	for {
		at := suite.Stamp()
		if h.lease.Err() != nil {
			break
		}
		h.last = at
		time.Sleep(time.Millisecond)
	}
	<-ctx.Done()
	h.cause = context.Cause(ctx)
}

// Over waits until the lease is over.
func (s *Served) Over(id string, f *Fate) error {
	s.mu.Lock()
	h := s.leases[id]
	s.mu.Unlock()
	<-h.over
	err := h.lease.Release()
	f.Last = h.last
	f.Lost = errors.Is(h.cause, interlock.ErrLost) && errors.Is(err, interlock.ErrLost)
	f.Text = fmt.Sprintf("its context ended with %v, its release with %v", h.cause, err)
	return nil
}

// Renewed waits for the next heartbeat.
func (s *Served) Renewed(struct{}, *struct{}) error {
	select {
	case <-s.renewed:
	default:
	}
	<-s.renewed
	return nil
}

// Draw takes a number from a file under a mutex.
func (s *Served) Draw(file string, n *int) error {
	lease, err := s.client.Mutex("order").Acquire(context.Background())
	if err != nil {
		return err
	}
	if *n, err = draw(file); err != nil {
		return err
	}
	return lease.Release()
}
