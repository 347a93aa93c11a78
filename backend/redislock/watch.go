package redislock

import (
	"context"
	"sync"
	"time"
)

// watch ends calls whose context ends while the server does not answer: a single
// caller reads its answer itself, until its deadline, and sees nothing else. It looks
// at intervals, and only while there are calls; a timer for each would cost more
// than the call.
type watch struct {
	mu      sync.Mutex
	calls   map[*watched]struct{}
	running bool
}

type watched struct{ ctx context.Context }

const (
	watchEvery = 50 * time.Millisecond
	watchIdle  = 20 // looks without a call, after which it ends
)

// begin has a call watched until end.
func (w *watch) begin(ctx context.Context, d *Driver) *watched {
	c := &watched{ctx}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[*watched]struct{}{}
	}
	w.calls[c] = struct{}{}
	if !w.running {
		w.running = true
		d.background(d.watchCalls)
	}
	return c
}

func (w *watch) end(c *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, c)
}

// look reports whether there are calls, and whether the context of one has ended.
func (w *watch) look() (calls, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.calls {
		ended = ended || c.ctx.Err() != nil
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

func (d *Driver) watchCalls(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for idle := 0; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		calls, ended := d.watch.look()
		if ended {
			d.conns.interrupt()
		}
		if idle++; calls {
			idle = 0
		} else if idle >= watchIdle && d.watch.rest() {
			return
		}
	}
}
