package conn

import (
	"context"
	"errors"
	"sync"
	"time"
)

// watch ends calls whose context ends while the server does not answer: a single
// caller reads its answer itself, until its deadline, and sees nothing else. It looks
// at intervals, and only while there are calls; a timer for each would cost more
// than the call.
//
// The answer may come later, so the connection ends with the call, and with it those
// that queue for it. Calls on other connections, such as heartbeats, go on.
type watch struct {
	mu      sync.Mutex
	calls   map[*Call]struct{}
	running bool
	tasks   sync.WaitGroup
}

// Call is the context of a call. Its deadline is that of the connection while the
// call reads from it, and says so whose connection it is.
type Call struct {
	context.Context
	deadline time.Time // zero if there is none
	sooner   bool      // it is before that of the context
	watch    *watch
	done     chan struct{} // nil until it is asked for; guarded by watch.mu, as what follows
	ended    bool
}

// Deadline is one that the client of Redis keeps, which it does if it is not later than its own
// timeout. Without one, a single caller would no longer read its answers itself from then on.
func (c *Call) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done is closed by the watch: to have the context do so would take a timer, and more than the call.
func (c *Call) Done() <-chan struct{} {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended {
			close(c.done)
		}
	}
	return c.done
}

// Begin has a call watched until End.
func (s *Set) Begin(ctx context.Context) *Call {
	c := &Call{Context: ctx, watch: &s.watch}
	deadline, bounded := ctx.Deadline()
	if own := time.Now().Add(s.timeout); s.timeout > 0 && !(bounded && deadline.Before(own)) {
		deadline, c.sooner = own, true
	}
	c.deadline = deadline
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[*Call]struct{}{}
	}
	w.calls[c] = struct{}{}
	if !w.running {
		if life := s.living(); life.Err() == nil {
			w.running = true
			w.tasks.Go(func() { s.watchCalls(life) })
		}
	}
	return c
}

var errTimeout = errors.New("no answer within the timeout")

// End is called with the error of the call, and says what it was.
func (s *Set) End(c *Call, err error) error {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, c)
	if c.sooner && errors.Is(err, context.DeadlineExceeded) {
		return errTimeout
	}
	return err
}

const (
	watchEvery = 50 * time.Millisecond
	watchIdle  = 20 // looks without a call, after which it ends
)

// look reports whether there are calls, and the deadlines of those whose context has
// ended.
func (w *watch) look() (calls bool, ended []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.calls {
		if c.Err() == nil {
			continue
		}
		ended = append(ended, c.deadline)
		if c.done != nil && !c.ended {
			close(c.done)
		}
		c.ended = true
	}
	return len(w.calls) > 0, ended
}

// rest ends the watch unless a call has begun.
func (w *watch) rest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = len(w.calls) > 0
	return !w.running
}

func (s *Set) watchCalls(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for idle := 0; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		calls, ended := s.watch.look()
		for _, deadline := range ended {
			s.interrupt(deadline)
		}
		if idle++; calls {
			idle = 0
		} else if idle >= watchIdle && s.watch.rest() {
			return
		}
	}
}
