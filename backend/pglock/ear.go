package pglock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// An ear is the one connection on which all clients of this process listen that have
// the same URL, or the same pool. NOTIFY wakes every connection of a database that listens to anything:
// the fewer there are, the faster is every hand-over.
type ear struct {
	dial func(context.Context) (*pgx.Conn, error)
	look func() time.Duration // how often it is made sure that the connection still leads to the server

	mu      sync.Mutex
	subs    map[string]*sub // by channel; nil once nobody is heard any more
	changed map[string]bool // channels that the server has to be told of
	poke    func()          // has them looked at
}

// sub is one who listens.
type sub struct {
	prepare func(*pgx.Conn)
	up      func()
	hear    func(conn *pgx.Conn, sender uint32, payload string)
	told    bool       // the server was; guarded by ear.mu
	lost    chan error // gets one error

	mu   sync.Mutex
	over bool // up and hear are not called any more
}

// call is how the ear calls up and hear.
func (s *sub) call(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		f()
	}
}

func (s *sub) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// dialTimeout bounds how long those who listen wait for a server that does not answer.
const dialTimeout = 10 * time.Second

// ears are those of this process, by where they lead to.
var ears = struct {
	mu  sync.Mutex
	all map[any]*ear
}{all: map[any]*ear{}}

// listen brings what is sent to a channel until ctx ends or the connection is lost.
// It calls prepare once, before, and up, when nothing that is sent from then on can be missed. The
// connection that prepare and hear get is theirs until they return.
func listen(ctx context.Context, to any, dial func(context.Context) (*pgx.Conn, error), look func() time.Duration, channel string, prepare func(*pgx.Conn), up func(), hear func(conn *pgx.Conn, sender uint32, payload string)) error {
	s := &sub{prepare: prepare, up: up, hear: hear, lost: make(chan error, 1)}
	e := earOf(to, dial, look, channel, s)
	defer s.end()
	select {
	case err := <-s.lost:
		return err
	case <-ctx.Done():
		e.remove(channel, s)
		return ctx.Err()
	}
}

func earOf(to any, dial func(context.Context) (*pgx.Conn, error), look func() time.Duration, channel string, s *sub) *ear {
	ears.mu.Lock()
	defer ears.mu.Unlock()
	if e := ears.all[to]; e != nil && e.add(channel, s) {
		return e
	}
	e := &ear{dial: dial, look: look, subs: map[string]*sub{}, changed: map[string]bool{}, poke: func() {}}
	e.add(channel, s)
	ears.all[to] = e
	go func() {
		e.run()
		ears.mu.Lock()
		defer ears.mu.Unlock()
		if ears.all[to] == e {
			delete(ears.all, to)
		}
	}()
	return e
}

// add reports whether the ear still hears.
func (e *ear) add(channel string, s *sub) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subs == nil {
		return false
	}
	e.subs[channel], e.changed[channel] = s, true
	e.poke()
	return true
}

func (e *ear) remove(channel string, s *sub) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subs[channel] == s {
		delete(e.subs, channel)
		e.changed[channel] = true
		e.poke()
	}
}

// run keeps the connection as long as somebody listens.
func (e *ear) run() {
	err := e.connected()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.subs {
		s.lost <- err
	}
	e.subs = nil
}

func (e *ear) connected() error {
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
func (e *ear) turn(conn *pgx.Conn, wait context.Context, end context.CancelFunc) (bool, error) {
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
			if s := e.sub(n.Channel); s != nil {
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
func (e *ear) changes(poke func()) (sql string, fresh []*sub, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.subs) == 0 {
		e.subs = nil
		return "", nil, false
	}
	var b strings.Builder
	for channel := range e.changed {
		name := pgx.Identifier{channel}.Sanitize()
		s := e.subs[channel]
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

func (e *ear) sub(channel string) *sub {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.subs[channel]
}
