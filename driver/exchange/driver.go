package exchange

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/coalesce"
	"github.com/interlock-go/interlock/internal/follow"
)

// Driver is a client of one database.
type Driver struct {
	store   Store
	channel string // where the database sends news for this client

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	exchanges atomic.Uint64
	took      atomic.Int64   // the time of the last exchange that has succeeded, in nanoseconds
	settling  coalesce.Tasks // by name of the queue
	learning  coalesce.Tasks // by ID of the ticket
	wake      wake
	topics    *follow.Topics
	lanes     *Lanes // nil: no bound
	turns     turns

	withdrawals withdrawals

	mu      sync.Mutex
	places  map[string]*place // by ID of the ticket
	repairs int               // how often all that waited was looked at
}

// New makes a driver, which closes the store with itself. The channel is where the
// store sends news for this client: NewChannel makes one.
func New(store Store, channel string) *Driver {
	d := &Driver{
		store: store, channel: channel,
		places: map[string]*place{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.topics = follow.New(d.usable, d.ctx.Done())
	d.wake.init()
	return d
}

// NewChannel makes the name of a channel that no other client has.
func NewChannel() string { return "interlock_" + NewID()[:24] }

// NewID makes the ID of a session.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Now is the local steady clock.
func (d *Driver) Now() driver.Instant { return driver.Now() }

// Exchanges counts transactions.
func (d *Driver) Exchanges() uint64 { return d.exchanges.Load() }

const (
	minTTL = 100 * time.Millisecond
	maxTTL = 30 * 24 * time.Hour
	// maxHold keeps times in microseconds far from the end of 64 bits.
	maxHold = 100 * 365 * 24 * time.Hour
)

// Open starts a session.
func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	if o.TTL <= 0 {
		return nil, driver.Invalid(fmt.Errorf("the TTL of %v is not positive", o.TTL))
	}
	s := newSession(d, NewID(), min(max(o.TTL, minTTL), maxTTL), o.Owner)
	s.proof = d.Now()
	var err error
	s.history, err = ask(ctx, d, func(ctx context.Context) (string, error) {
		return d.store.Begin(ctx, Session{ID: s.id, TTL: s.ttl, Owner: o.Owner, Channel: d.channel})
	})
	if err != nil {
		return nil, err
	}
	d.wake.beat(s.ttl / 3)
	return s, nil
}

// Check examines the database.
func (d *Driver) Check(ctx context.Context) []driver.Finding { return d.store.Check(ctx) }

// Close ends calls under way; tickets of open sessions run out.
func (d *Driver) Close() error {
	d.mu.Lock()
	closed := d.ctx.Err() != nil
	d.cancel()
	d.mu.Unlock()
	if closed {
		return nil
	}
	d.tasks.Wait()
	d.store.Close()
	return nil
}

// background runs what nobody waits for, until the driver is closed: then it says that it
// does not.
func (d *Driver) background(f func(ctx context.Context)) (runs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.tasks.Go(func() { f(d.ctx) })
	return true
}

// backgroundTimeout bounds what nobody waits for; a heartbeat finds what it has
// left undone.
const backgroundTimeout = 10 * time.Second

// settle goes on with what one exchange may not do alone.
func (d *Driver) settle(queue string) {
	if !d.settling.Begin(queue) {
		return
	}
	d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
		defer cancel()
		for more := true; more; more = d.settling.More(queue) {
			if d.settleAll(ctx, queue) != nil { // somebody's heartbeat goes on
				d.settling.End(queue)
				return
			}
		}
	})
}

func (d *Driver) settleAll(ctx context.Context, queue string) error {
	for {
		more, err := ask(ctx, d, func(ctx context.Context) (bool, error) { return d.store.Settle(ctx, queue) })
		if err != nil || !more {
			return err
		}
	}
}
