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
	"github.com/interlock-go/interlock/drivertest/internal/calls"
)

// Driver is a driver in another process.
type Driver struct {
	calls.Driver
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
	d.Do = d.of(0)
	before := driver.Now()
	now, err := calls.Result[driver.Instant](d.Do(ctx, "Dial", url))
	if err != nil {
		d.rpc.Close()
		return nil, err
	}
	if now < before || now > driver.Now() { // its clock is another
		d.offset = before.Sub(now)
	}
	return d, nil
}

// of makes the calls of a session, or of the driver.
func (d *Driver) of(session int) calls.Func {
	return func(ctx context.Context, method string, args ...any) (any, error) {
		r, err := d.exchange(ctx, Call{Session: session, Method: method, Args: args})
		switch v := r.Result.(type) {
		case opened:
			return &driver.Opened{Session: &calls.Session{Do: d.of(v.Session)}, ID: v.ID, TTL: v.TTL}, err
		case driver.Ticket:
			v.Proof = v.Proof.Add(d.offset)
			return v, err
		case driver.Queue:
			v.Read = v.Read.Add(d.offset)
			return v, err
		case []driver.Renewed:
			for i := range v {
				v[i].Proof = v[i].Proof.Add(d.offset)
			}
		}
		return r.Result, err
	}
}

// Work makes the other process do something on its own, and waits for it.
func (d *Driver) Work(ctx context.Context, name string, args any) error {
	encoded, err := json.Marshal(args)
	if err != nil {
		return err
	}
	_, err = d.Do(ctx, "Work", name, encoded)
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

// Now reads the clock of this process.
func (d *Driver) Now() driver.Instant { return driver.Now() }

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return each(calls.Result[[]driver.Queue](d.Do(ctx, "Queues", prefix)))
}

func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return each(calls.Result[[]string](d.Do(ctx, "Cells", prefix)))
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

func (d *Driver) Check(ctx context.Context) []driver.Finding {
	findings, err := calls.Result[[]driver.Finding](d.Do(ctx, "Check"))
	if err != nil {
		return []driver.Finding{{Check: "process", Status: driver.Fail, Detail: err.Error()}}
	}
	return findings
}

func (d *Driver) Exchanges() uint64 {
	n, _ := calls.Result[uint64](d.Do(context.Background(), "Exchanges"))
	return n
}

// Close closes the driver and hangs up.
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	_, err := d.Do(context.Background(), "Close")
	return errors.Join(err, d.rpc.Close())
}
