package zklock

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// signals are what a session has not been told yet, each once.
type signals struct {
	mu    sync.Mutex
	queue []driver.Signal
	has   map[driver.Signal]bool
	bell  chan struct{}
}

func newSignals() signals {
	return signals{has: map[driver.Signal]bool{}, bell: make(chan struct{}, 1)}
}

func (s *signals) add(demand driver.Demand, queue, id string) {
	g := driver.Signal{Demand: demand, Queue: queue, ID: id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has[g] {
		return
	}
	s.has[g] = true
	s.queue = append(s.queue, g)
	ring(s.bell)
}

func (s *signals) take() (driver.Signal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return driver.Signal{}, false
	}
	g := s.queue[0]
	s.queue = s.queue[1:]
	delete(s.has, g)
	if len(s.queue) > 0 {
		ring(s.bell) // for another caller
	}
	return g, true
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	for {
		if err := s.usable(ctx); err != nil {
			return driver.Signal{}, err
		}
		if g, ok := s.signals.take(); ok {
			return g, nil
		}
		select {
		case <-s.signals.bell:
		case <-ctx.Done():
		case <-s.over:
		case <-s.d.ctx.Done():
		}
	}
}
