package memlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/interlock-go/interlock/driver"
)

// Driver is one client of a [World]. It implements driver.Driver.
type Driver struct {
	world  *World
	faults Faults
	done   chan struct{} // closed by Close

	// Guarded by the world's mutex.
	closed    bool
	cut       bool
	healed    bell
	sessions  map[*session]struct{} // those that are not over
	exchanges uint64
}

var _ driver.Driver = (*Driver)(nil)

var errClosed = driver.Permanent(errors.New("memlock: driver is closed"))

// World returns the world of this client.
func (d *Driver) World() *World { return d.world }

// Now reads the clock of the time package, which testing/synctest simulates.
func (d *Driver) Now() driver.Instant { return now() }

func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	o.TTL = min(o.TTL, maxHold)
	if o.Owner == "" {
		host, _ := os.Hostname()
		o.Owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	s, err := request(ctx, d, "Open", func() (*session, error) { return d.open(o), nil })
	if err != nil {
		return nil, err
	}
	return &driver.Opened{Session: s, ID: s.id, TTL: s.ttl}, nil
}

func (d *Driver) open(o driver.SessionOptions) *session {
	s := &session{
		d:       d,
		id:      rand.Text(),
		ttl:     o.TTL,
		owner:   o.Owner,
		tickets: list{kind: inSession},
		signals: list{kind: inSignals},
	}
	s.alarm.session = s
	d.sessions[s] = struct{}{}
	d.world.left.span = max(d.world.left.span, o.TTL)
	return s
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	return change(ctx, d, "Raise", func() error {
		if queue == "" {
			return d.world.raiseAll(floor)
		}
		return d.world.raise(queue, floor)
	})
}

func (w *World) raise(queue string, floor uint64) error {
	q, last, count := w.queues[queue], w.token, uint64(0)
	if q != nil {
		last, count = max(last, q.floor), uint64(q.count)
	}
	switch {
	case floor <= last:
		return nil
	case floor >= driver.MaxToken-1-count:
		return noneLeft(floor)
	case q == nil:
		q = w.newQueue(queue)
	}
	w.need(q)
	q.floor = floor
	return nil
}

func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	return change(ctx, d, "Resize", func() error { return d.world.resize(queue, capacity) })
}

func (w *World) resize(queue string, capacity int64) error {
	q := w.queues[queue]
	switch {
	case q != nil && q.count > 0 && q.kind != driver.Semaphore:
		return driver.ErrMismatch
	case capacity == 0 && (q == nil || !q.resized):
		return nil
	case q == nil:
		q = w.newQueue(queue)
	}
	w.need(q)
	q.resized = capacity > 0
	if q.resized {
		q.kind, q.capacity = driver.Semaphore, capacity
	}
	for t := q.waiting; t != nil; {
		next := q.tickets.next(t)
		if t.units > q.capacity {
			w.unlink(t)
		}
		t = next
	}
	w.grant(q)
	w.tidy(q)
	return nil
}

func (w *World) raiseAll(floor uint64) error {
	var most uint64
	for _, q := range w.queues {
		most = max(most, uint64(q.count))
	}
	if floor > w.token && floor >= driver.MaxToken-1-most {
		return noneLeft(floor)
	}
	w.token = max(w.token, floor)
	return nil
}

func noneLeft(floor uint64) error {
	return driver.Invalid(fmt.Errorf("floor %d leaves no tokens: they end below %d", floor, uint64(driver.MaxToken)))
}

func (d *Driver) Check(ctx context.Context) []driver.Finding {
	f := driver.Finding{
		Check: "backend", Status: driver.OK,
		Detail: "in the memory of this process; other processes are not excluded",
	}
	if err := change(ctx, d, "Check", func() error { return nil }); err != nil {
		f.Status, f.Detail = driver.Fail, err.Error()
		f.Promise = "every lock: without the backend none can be acquired or renewed"
		f.Remedy = "end the fault that was asked for, or open the driver again"
	}
	return []driver.Finding{f}
}

func (d *Driver) Exchanges() uint64 {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	return d.exchanges
}

// Close ends every call under way. Sessions that are still open look dead to
// the other clients: their tickets leave when their TTL has run out.
func (d *Driver) Close() error {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	if !d.closed {
		d.closed = true
		close(d.done)
	}
	return nil
}
