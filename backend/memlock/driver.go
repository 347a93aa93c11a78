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
	s, err := call(ctx, d, "Open", d, (*Driver).open, o)
	if err != nil {
		return nil, err
	}
	return &driver.Opened{Session: s, ID: s.id, TTL: s.ttl}, nil
}

func (d *Driver) open(o driver.SessionOptions) (*session, error) {
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
	return s, nil
}

type raise struct {
	queue string
	floor uint64
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	_, err := call(ctx, d, "Raise", d, (*Driver).raise, raise{queue, floor})
	return err
}

func (d *Driver) raise(a raise) (none, error) {
	w := d.world
	if a.queue == "" {
		return none{}, w.raiseAll(a.floor)
	}
	q := w.queues[a.queue]
	last := w.token
	if q != nil {
		last = max(last, q.floor)
	}
	if a.floor <= last {
		return none{}, nil
	}
	var count uint64
	if q != nil {
		count = uint64(q.count)
	}
	if a.floor >= driver.MaxToken-1-count {
		return none{}, noneLeft(a.floor)
	}
	if q == nil {
		q = w.newQueue(a.queue)
	}
	w.need(q)
	q.floor = a.floor
	return none{}, nil
}

type resize struct {
	queue    string
	capacity int64
}

func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	_, err := call(ctx, d, "Resize", d, (*Driver).resize, resize{queue, capacity})
	return err
}

func (d *Driver) resize(a resize) (none, error) {
	w := d.world
	q := w.queues[a.queue]
	switch {
	case q != nil && q.count > 0 && q.kind != driver.Semaphore:
		return none{}, driver.ErrMismatch
	case a.capacity == 0 && (q == nil || !q.resized):
		return none{}, nil
	case q == nil:
		q = w.newQueue(a.queue)
	}
	w.need(q)
	q.resized = a.capacity > 0
	if q.resized {
		q.kind, q.capacity = driver.Semaphore, a.capacity
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
	return none{}, nil
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
	f, err := call(ctx, d, "Check", d, (*Driver).check, none{})
	if err != nil {
		return []driver.Finding{{
			Check: "backend", Status: driver.Fail, Detail: err.Error(),
			Promise: "every lock: without the backend none can be acquired or renewed",
			Remedy:  "end the fault that was asked for, or open the driver again",
		}}
	}
	return f
}

func (d *Driver) check(none) ([]driver.Finding, error) {
	return []driver.Finding{{
		Check: "backend", Status: driver.OK,
		Detail: "in the memory of this process; other processes are not excluded",
	}}, nil
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
