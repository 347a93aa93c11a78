package memlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Driver is one client of a [World]. It implements driver.Driver.
type Driver struct {
	world  *World
	faults Faults
	done   chan struct{} // closed by Close

	// Guarded by the world's mutex.
	cut       bool
	healed    bell
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
	return &driver.Opened{Session: s, ID: s.row.ID, TTL: s.row.TTL}, nil
}

func (d *Driver) open(o driver.SessionOptions) *session {
	id := rand.Text()
	s := &session{d: d, row: exchange.Session{ID: id, TTL: o.TTL, Owner: o.Owner}}
	d.world.sessions[s] = true
	d.world.left.span = max(d.world.left.span, o.TTL)
	return s
}

// maxHold keeps the sum of an instant and a duration in range.
const maxHold = 100 * 365 * 24 * time.Hour

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
	if d.usable() == nil {
		close(d.done)
	}
	return nil
}

// usable reports why the driver cannot be used.
func (d *Driver) usable() error {
	select {
	case <-d.done:
		return errClosed
	default:
		return nil
	}
}
