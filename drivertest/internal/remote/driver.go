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
	now, err := ask[driver.Instant](ctx, d, 0, "Dial", url)
	if err != nil {
		d.rpc.Close()
		return nil, err
	}
	if now < before || now > driver.Now() { // its clock is another
		d.offset = before.Sub(now)
	}
	return d, nil
}

// Work makes the other process do something on its own, and waits for it.
func (d *Driver) Work(ctx context.Context, name string, args any) error {
	encoded, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return d.do(ctx, 0, "Work", name, encoded)
}

// ask makes a call that has a result.
func ask[R any](ctx context.Context, d *Driver, session int, method string, args ...any) (r R, err error) {
	reply, err := d.exchange(ctx, Call{Session: session, Method: method, Args: args})
	r, _ = reply.Result.(R)
	return r, err
}

// do makes a call without a result.
func (d *Driver) do(ctx context.Context, session int, method string, args ...any) error {
	_, err := ask[any](ctx, d, session, method, args...)
	return err
}

// exchange makes a call in the other process and waits for its reply or for the end
// of the context: a stopped process never answers. A call begins only when those that
// the caller has given up are over, as if they had returned there: none overtakes them.
func (d *Driver) exchange(ctx context.Context, c Call) (*Reply, error) {
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

func (d *Driver) local(t driver.Ticket, err error) (driver.Ticket, error) {
	t.Proof = t.Proof.Add(d.offset)
	return t, err
}

func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	r, err := ask[opened](ctx, d, 0, "Open", o)
	if err != nil {
		return nil, err
	}
	return &driver.Opened{Session: &session{d, r.Session}, ID: r.ID, TTL: r.TTL}, nil
}

func (d *Driver) Now() driver.Instant { return driver.Now() }

func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	return ask[driver.Cell](ctx, d, 0, "Load", name)
}

func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	return ask[driver.Cell](ctx, d, 0, "Swap", s)
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	return ask[driver.Cell](ctx, d, 0, "Watch", name, after)
}

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	q, err := ask[driver.Queue](ctx, d, 0, "Follow", queue, after)
	q.Read = q.Read.Add(d.offset)
	return q, err
}

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return each(ask[[]driver.Queue](ctx, d, 0, "Queues", prefix))
}

func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return each(ask[[]string](ctx, d, 0, "Cells", prefix))
}

func each[T any](all []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return d.do(ctx, 0, "Ask", queue, id, what)
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	return d.do(ctx, 0, "Raise", queue, floor)
}

func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	return d.do(ctx, 0, "Resize", queue, capacity)
}

func (d *Driver) Check(ctx context.Context) []driver.Finding {
	findings, err := ask[[]driver.Finding](ctx, d, 0, "Check")
	if err != nil {
		return []driver.Finding{{Check: "process", Status: driver.Fail, Detail: err.Error()}}
	}
	return findings
}

func (d *Driver) Exchanges() uint64 {
	n, _ := ask[uint64](context.Background(), d, 0, "Exchanges")
	return n
}

// Close closes the driver and hangs up.
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	return errors.Join(d.do(context.Background(), 0, "Close"), d.rpc.Close())
}

type session struct {
	d *Driver
	n int
}

func (s *session) Join(ctx context.Context, q driver.Request) (driver.Ticket, error) {
	return s.d.local(ask[driver.Ticket](ctx, s.d, s.n, "Join", q))
}

func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	return s.d.local(ask[driver.Ticket](ctx, s.d, s.n, "Await", t))
}

func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return s.d.do(ctx, s.n, "Shrink", t, units)
}

func (s *session) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	return s.d.do(ctx, s.n, "Keep", t, d)
}

func (s *session) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return s.d.do(ctx, s.n, "Leave", t, clean)
}

func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	all, err := ask[[]driver.Renewed](ctx, s.d, s.n, "Renew", known)
	for i := range all {
		all[i].Proof = all[i].Proof.Add(s.d.offset)
	}
	return all, err
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return ask[driver.Signal](ctx, s.d, s.n, "Signals")
}

func (s *session) Close(ctx context.Context) error { return s.d.do(ctx, s.n, "Close") }
