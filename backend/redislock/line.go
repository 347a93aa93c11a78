package redislock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// line is the connection to which the server sends news without being asked:
// grants, signals, changes of what is followed. Heartbeats use it as well, so that
// they are not behind others' calls.
type line struct {
	mu    sync.Mutex
	conn  rueidis.DedicatedClient // nil while there is none
	err   error                   // why there is none
	tried chan struct{}           // closed by the next attempt
}

func (l *line) init() { l.tried = make(chan struct{}) }

// is notes the outcome of an attempt.
func (l *line) is(conn rueidis.DedicatedClient, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.err = conn, err
	close(l.tried)
	l.tried = make(chan struct{})
}

func (l *line) get() rueidis.DedicatedClient {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// await waits until there is a connection, and fails with the next attempt that
// does.
func (l *line) await(ctx context.Context) error {
	l.mu.Lock()
	conn, tried := l.conn, l.tried
	l.mu.Unlock()
	if conn != nil {
		return nil
	}
	select {
	case <-tried:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// listen keeps the line up until the driver is closed.
func (d *Driver) listen() {
	const least, most = 5 * time.Millisecond, time.Second
	pause := least
	for d.ctx.Err() == nil {
		began := time.Now()
		err := d.listenOnce()
		if d.ctx.Err() != nil {
			return
		}
		d.line.is(nil, err)
		if time.Since(began) > most {
			pause = least
		}
		select {
		case <-d.ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, most)
	}
}

func (d *Driver) listenOnce() error {
	conn, release := d.client.Dedicate()
	defer release()
	subscribed := make(chan struct{}, 1)
	ended := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { d.hear(m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			select {
			case subscribed <- struct{}{}:
			default:
			}
		},
	})
	if err := conn.Do(d.ctx, conn.B().Subscribe().Channel("interlock:"+d.id).Build()).Error(); err != nil {
		return err
	}
	select {
	case <-subscribed:
	case err := <-ended:
		return err
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	d.line.is(conn, nil)
	d.repair()
	select {
	case err := <-ended:
		return err
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
}
