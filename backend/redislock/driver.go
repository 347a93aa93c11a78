package redislock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/coalesce"
	"github.com/interlock-go/interlock/internal/follow"
)

// Driver is a client of one server, or of a Cluster.
type Driver struct {
	*config
	client rueidis.Client
	id     string // names the channel to which news are sent
	high   string // the key that is above all tokens; none in a Cluster

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	closed    atomic.Bool
	exchanges atomic.Uint64
	late      atomic.Int32   // connections for heartbeats that are still being made
	settling  coalesce.Tasks // by name of the queue
	learning  coalesce.Tasks // by ID of the ticket
	sessions  atomic.Uint64
	queues    queues
	feed      feed
	watch     watch
	topics    *follow.Topics

	mu     sync.Mutex
	places map[uint64]*place // by number
}

func newDriver(ctx context.Context, client rueidis.Client, c *config) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := begin(client, c)
	for attempts := 1; ; attempts++ {
		err := d.feed.await(ctx)
		if err == nil {
			d.high = d.highest(ctx)
			return d, nil
		}
		// In a Cluster the next attempt probably takes another node.
		if err = explain(err); client.Mode() != rueidis.ClientModeCluster || driver.IsPermanent(err) || ctx.Err() != nil || attempts == 10 {
			d.stop()
			return nil, err
		}
	}
}

// begin makes a driver that has no feed yet.
func begin(client rueidis.Client, c *config) *Driver {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	d := &Driver{
		config: c, client: client, id: base64.RawURLEncoding.EncodeToString(id[:]),
		places: map[uint64]*place{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.topics = follow.New(d.usable, d.ctx.Done())
	d.topics.Keep = idleTopics
	d.feed.init()
	d.tasks.Go(d.listen)
	return d
}

// highest is the key that is above all tokens, if there can be one beside the keys of a
// lock: the server may be part of a Cluster, or refuse it to a user of few keys.
func (d *Driver) highest(ctx context.Context) string {
	if d.client.Mode() == rueidis.ClientModeCluster {
		return ""
	}
	base := "interlock:{" + d.prefix + d.allNames
	high := base + "}:m"
	_, err := d.run(ctx, call{highScript, []string{high, base + d.id + "}"}, nil})
	if err != nil && (refused(err.Error()) || strings.Contains(err.Error(), "CROSSSLOT")) {
		return ""
	}
	return high
}

// Now is the local steady clock.
func (d *Driver) Now() driver.Instant { return driver.Now() }

// Exchanges counts round trips: a script, or a pipeline of scripts.
func (d *Driver) Exchanges() uint64 { return d.exchanges.Load() }

const (
	minTTL = 100 * time.Millisecond
	maxTTL = 30 * 24 * time.Hour
	// maxHold keeps times of the server in the range in which a Lua number is exact.
	maxHold = 100 * 365 * 24 * time.Hour
)

// Open starts a session, of which the server knows nothing but its tickets.
func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	if _, err := d.do(ctx, d.client.B().Ping().Build()); err != nil {
		return nil, d.failed(ctx, err)
	}
	if err := d.feed.await(ctx); err != nil {
		return nil, d.failed(ctx, err)
	}
	s := newSession(d, d.id+"."+strconv.FormatUint(d.sessions.Add(1), 10), min(max(o.TTL, minTTL), maxTTL), o.Owner)
	return &driver.Opened{Session: s, ID: s.id, TTL: s.ttl}, nil
}

// Close ends calls under way; tickets of open sessions run out.
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.stop()
	return nil
}

func (d *Driver) stop() {
	d.closed.Store(true)
	d.cancel()
	d.conns.close()
	d.tasks.Wait()
	if d.own {
		d.client.Close()
	}
}

// background runs what nobody waits for, until the driver is closed.
func (d *Driver) background(f func(ctx context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() == nil {
		d.tasks.Go(func() { f(d.ctx) })
	}
}

// settle goes on with what one script may not do alone.
func (d *Driver) settle(q *queue) {
	if !d.settling.Begin(q.name) {
		return
	}
	d.background(func(ctx context.Context) {
		for more := true; more; {
			answer, err := d.runN(ctx, call{renewScript, q.keys, []string{"-", "0", "0"}}, 2)
			if err != nil { // somebody's heartbeat goes on
				d.settling.End(q.name)
				return
			}
			more = answer[0] != 0 || d.settling.More(q.name)
		}
	})
}
