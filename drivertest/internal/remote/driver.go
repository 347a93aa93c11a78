package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/rpc"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Driver is a driver in another process.
type Driver struct {
	rpc    *rpc.Client
	offset time.Duration // from the clock of the other process to this one's
	calls  atomic.Uint64
	closed atomic.Bool

	mu     sync.Mutex
	ending []*rpc.Call // their contexts have ended
}

// Dial opens the URL in the process at the other end of the connection.
func Dial(ctx context.Context, conn io.ReadWriteCloser, url string) (*Driver, error) {
	d := &Driver{rpc: rpc.NewClient(conn)}
	before := driver.Now()
	r, err := d.do(ctx, Call{Op: "Dial", URL: url})
	if err != nil {
		d.rpc.Close()
		return nil, err
	}
	if r.Now < before || r.Now > driver.Now() { // its clock is another
		d.offset = before.Sub(r.Now)
	}
	return d, nil
}

// Work makes the other process do something on its own, and waits for it.
func (d *Driver) Work(ctx context.Context, name string, args any) error {
	encoded, err := json.Marshal(args)
	if err != nil {
		return err
	}
	_, err = d.do(ctx, Call{Op: "Work", Name: name, Work: encoded})
	return err
}

// do makes a call in the other process and waits for its reply or for the end
// of the context: a stopped process never answers. A call begins only when those that
// the caller has given up are over, as if they had returned there: none overtakes them.
func (d *Driver) do(ctx context.Context, c Call) (*Reply, error) {
	if err := ctx.Err(); err != nil {
		return &Reply{}, err
	}
	if err := d.settle(ctx); err != nil {
		return &Reply{}, err
	}
	c.ID = d.calls.Add(1)
	r := &Reply{}
	call := d.rpc.Go("Server.Do", c, r, nil)
	select {
	case <-call.Done:
		if call.Error != nil {
			return &Reply{}, call.Error
		}
		return r, r.err()
	case <-ctx.Done():
		d.mu.Lock()
		d.ending = append(d.ending, call)
		d.mu.Unlock()
		d.rpc.Go("Server.Cancel", c.ID, &struct{}{}, nil)
		return &Reply{}, ctx.Err()
	}
}

// settle waits until the calls whose contexts have ended are over in the other process.
func (d *Driver) settle(ctx context.Context) error {
	d.mu.Lock()
	ending := slices.Clone(d.ending)
	d.mu.Unlock()
	for _, call := range ending {
		select {
		case <-call.Done:
			call.Done <- call // for others who wait for it; there is room
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ending = slices.DeleteFunc(d.ending, func(c *rpc.Call) bool { return slices.Contains(ending, c) })
	return nil
}

func (d *Driver) local(t driver.Ticket) driver.Ticket {
	t.Proof = t.Proof.Add(d.offset)
	return t
}

func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	r, err := d.do(ctx, Call{Op: "Open", Options: o})
	if err != nil {
		return nil, err
	}
	return &driver.Opened{Session: &session{d, r.Session}, ID: r.ID, TTL: r.TTL}, nil
}

func (d *Driver) Now() driver.Instant { return driver.Now() }

func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	r, err := d.do(ctx, Call{Op: "Load", Name: name})
	return r.Cell, err
}

func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	r, err := d.do(ctx, Call{Op: "Swap", Swap: s})
	return r.Cell, err
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	r, err := d.do(ctx, Call{Op: "Watch", Name: name, After: after})
	return r.Cell, err
}

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	r, err := d.do(ctx, Call{Op: "Follow", Name: queue, Version: after})
	r.Queue.Read = r.Queue.Read.Add(d.offset)
	return r.Queue, err
}

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		r, err := d.do(ctx, Call{Op: "Queues", Name: prefix})
		if err != nil {
			yield(driver.Queue{}, err)
			return
		}
		for _, q := range r.Queues {
			if !yield(q, nil) {
				return
			}
		}
	}
}

func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		r, err := d.do(ctx, Call{Op: "Cells", Name: prefix})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range r.Names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	_, err := d.do(ctx, Call{Op: "Ask", Name: queue, Member: id, Demand: what})
	return err
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	_, err := d.do(ctx, Call{Op: "Raise", Name: queue, After: floor})
	return err
}

func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	_, err := d.do(ctx, Call{Op: "Resize", Name: queue, Units: capacity})
	return err
}

func (d *Driver) Check(ctx context.Context) []driver.Finding {
	r, err := d.do(ctx, Call{Op: "Check"})
	if err != nil {
		return []driver.Finding{{Check: "process", Status: driver.Fail, Detail: err.Error()}}
	}
	return r.Findings
}

func (d *Driver) Exchanges() uint64 {
	r, _ := d.do(context.Background(), Call{Op: "Exchanges"})
	return r.Count
}

// Close closes the driver and hangs up.
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	_, err := d.do(context.Background(), Call{Op: "Close"})
	return errors.Join(err, d.HangUp())
}

// HangUp makes the other process exit.
func (d *Driver) HangUp() error { return d.rpc.Close() }

type session struct {
	d *Driver
	n int
}

func (s *session) Join(ctx context.Context, q driver.Request) (driver.Ticket, error) {
	r, err := s.d.do(ctx, Call{Op: "Join", Session: s.n, Request: q})
	return s.d.local(r.Ticket), err
}

func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	r, err := s.d.do(ctx, Call{Op: "Await", Session: s.n, Ticket: t})
	return s.d.local(r.Ticket), err
}

func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	_, err := s.d.do(ctx, Call{Op: "Shrink", Session: s.n, Ticket: t, Units: units})
	return err
}

func (s *session) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	_, err := s.d.do(ctx, Call{Op: "Keep", Session: s.n, Ticket: t, For: d})
	return err
}

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	_, err := s.d.do(ctx, Call{Op: "Leave", Session: s.n, Ticket: t, Clean: clean})
	return err
}

func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	r, err := s.d.do(ctx, Call{Op: "Renew", Session: s.n, Known: known})
	for i := range r.Renewed {
		r.Renewed[i].Proof = r.Renewed[i].Proof.Add(s.d.offset)
	}
	return r.Renewed, err
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	r, err := s.d.do(ctx, Call{Op: "Signals", Session: s.n})
	return r.Signal, err
}

func (s *session) Close(ctx context.Context) error {
	_, err := s.d.do(ctx, Call{Op: "CloseSession", Session: s.n})
	return err
}
