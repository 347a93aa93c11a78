package pglock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// A listener is the one connection on which all clients of this process listen that have
// the same URL, or the same pool. NOTIFY wakes every connection of a database that listens to anything:
// the fewer there are, the faster is every hand-over.
type listener struct {
	dial func(context.Context) (*pgx.Conn, error)
	look func() time.Duration // how often it is made sure that the connection still leads to the server

	mu          sync.Mutex
	subscribers map[string]*subscriber // by channel; nil once nobody is heard any more
	changed     map[string]bool        // channels that the server has to be told of
	poke        func()                 // has them looked at
}

// subscriber is one who listens.
type subscriber struct {
	prepare func(*pgx.Conn)
	up      func()
	hear    func(conn *pgx.Conn, sender uint32, payload string)
	told    bool       // the server was; guarded by listener.mu
	lost    chan error // gets one error

	mu   sync.Mutex
	over bool // up and hear are not called any more
}

// call is how the listener calls up and hear.
func (s *subscriber) call(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		f()
	}
}

func (s *subscriber) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// dialTimeout bounds how long those who listen wait for a server that does not answer.
const dialTimeout = 10 * time.Second

// listeners are those of this process, by where they lead to.
var listeners = struct {
	mu  sync.Mutex
	all map[any]*listener
}{all: map[any]*listener{}}

// listen brings what is sent to a channel until ctx ends or the connection is lost.
// It calls prepare once, before, and up, when nothing that is sent from then on can be missed. The
// connection that prepare and hear get is theirs until they return.
func listen(ctx context.Context, to any, dial func(context.Context) (*pgx.Conn, error), look func() time.Duration, channel string, prepare func(*pgx.Conn), up func(), hear func(conn *pgx.Conn, sender uint32, payload string)) error {
	s := &subscriber{prepare: prepare, up: up, hear: hear, lost: make(chan error, 1)}
	e := listenerOf(to, dial, look, channel, s)
	defer s.end()
	select {
	case err := <-s.lost:
		return err
	case <-ctx.Done():
		e.remove(channel, s)
		return ctx.Err()
	}
}

func listenerOf(to any, dial func(context.Context) (*pgx.Conn, error), look func() time.Duration, channel string, s *subscriber) *listener {
	listeners.mu.Lock()
	defer listeners.mu.Unlock()
	if e := listeners.all[to]; e != nil && e.add(channel, s) {
		return e
	}
	e := &listener{dial: dial, look: look, subscribers: map[string]*subscriber{}, changed: map[string]bool{}, poke: func() {}}
	e.add(channel, s)
	listeners.all[to] = e
	go func() {
		e.run()
		listeners.mu.Lock()
		defer listeners.mu.Unlock()
		if listeners.all[to] == e {
			delete(listeners.all, to)
		}
	}()
	return e
}

// add reports whether the listener still hears.
func (e *listener) add(channel string, s *subscriber) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subscribers == nil {
		return false
	}
	e.subscribers[channel], e.changed[channel] = s, true
	e.poke()
	return true
}

func (e *listener) remove(channel string, s *subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subscribers[channel] == s {
		delete(e.subscribers, channel)
		e.changed[channel] = true
		e.poke()
	}
}

// run keeps the connection as long as somebody listens.
func (e *listener) run() {
	err := e.connected()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.subscribers {
		s.lost <- err
	}
	e.subscribers = nil
}

func (e *listener) connected() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	conn, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	for {
		wait, cancel := context.WithTimeout(context.Background(), e.look())
		heard, err := e.turn(conn, wait, cancel)
		cancel()
		if err != nil || !heard {
			return err
		}
	}
}

// turn tells the server what has changed and passes on what is sent, until there
// are changes again or it is time to look whether the server is there. It reports
// whether anybody listens.
func (e *listener) turn(conn *pgx.Conn, wait context.Context, end context.CancelFunc) (bool, error) {
	ask, cancel := context.WithTimeout(context.Background(), e.look()+time.Second)
	defer cancel()
	sql, fresh, ok := e.changes(end)
	if !ok {
		return false, nil
	}
	for _, s := range fresh {
		s.call(func() { s.prepare(conn) })
	}
	if sql == "" {
		sql = "-- ping"
	}
	if _, err := conn.Exec(ask, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return false, err
	}
	for _, s := range fresh {
		s.call(s.up)
	}
	for {
		n, err := conn.WaitForNotification(wait)
		switch {
		case err == nil:
			if s := e.subscriber(n.Channel); s != nil {
				s.call(func() { s.hear(conn, n.PID, n.Payload) })
			}
		case wait.Err() != nil && !conn.IsClosed():
			return true, nil
		default:
			return false, err
		}
	}
}

// changes returns the SQL that tells the server of them, and those for whom that
// is new; or not ok, for ever, if nobody listens. The next change calls poke.
func (e *listener) changes(poke func()) (sql string, fresh []*subscriber, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.subscribers) == 0 {
		e.subscribers = nil
		return "", nil, false
	}
	var b strings.Builder
	for channel := range e.changed {
		name := pgx.Identifier{channel}.Sanitize()
		s := e.subscribers[channel]
		if s == nil {
			b.WriteString("UNLISTEN " + name + ";")
			continue
		}
		b.WriteString("LISTEN " + name + ";")
		if !s.told {
			s.told = true
			fresh = append(fresh, s)
		}
	}
	clear(e.changed)
	e.poke = poke
	return b.String(), fresh, true
}

func (e *listener) subscriber(channel string) *subscriber {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.subscribers[channel]
}
