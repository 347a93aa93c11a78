package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/coalesce"
	"github.com/interlock-go/interlock/internal/fileclock"
	"github.com/interlock-go/interlock/internal/folder"
)

// store is the exchanges with one file.
type store struct {
	file      *file
	clock     fileclock.Clock
	exchanges atomic.Uint64
	closed    atomic.Bool

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // tasks in the background

	mailbox  *folder.Mailbox
	receiver atomic.Pointer[func(exchange.Event)] // where events go; nil before Listen
	watcher  watcher
	suspects coalesce.Tasks // by ID of the session
	tidying  tidying
	tickets  tickets

	mu        sync.Mutex
	sessions  map[string]*session // by ID: of this client
	addresses map[int64]address   // of sessions of all clients
}

// session is one of this client.
type session struct {
	id    string
	sid   int64
	ttl   time.Duration
	owner string
	life  *folder.Life

	expires atomic.Int64 // a moment before which the session stands for certain
}

func openStore(ctx context.Context, path string, c config) (*store, error) {
	clock, err := fileclock.New()
	if err != nil {
		return nil, driver.Permanent(err)
	}
	f, err := openFile(ctx, path, c)
	if err != nil {
		return nil, err
	}
	s := &store{file: f, clock: clock, tickets: newTickets(), sessions: map[string]*session{}, addresses: map[int64]address{}}
	s.watcher.init()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mailbox = folder.OpenMailbox(f.folder, exchange.NewID(), again, s.open, s.refused)
	err = s.afterBoot(ctx)
	if err == nil {
		err = s.checkNames(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// checkNames refuses a file that names other files than its own.
func (s *store) checkNames(ctx context.Context) error {
	return s.view(ctx, func(c conn, _ moment) error {
		if _, err := c.peers("SELECT sid, id FROM session"); err != nil {
			return err
		}
		return c.each("SELECT post FROM session UNION SELECT post FROM watch", func(r *sqlite.Stmt) error { return checkMailbox(r.ColumnText(0)) })
	})
}

// afterBoot ends what did not survive a reboot, and sets the moments of what did by the wall clock.
func (s *store) afterBoot(ctx context.Context) error {
	return s.change(ctx, fast, func(t *tx) error {
		boot := ""
		if _, err := t.one("SELECT boot FROM file", func(r *sqlite.Stmt) { boot = r.ColumnText(0) }); err != nil || boot == s.clock.Boot {
			return err
		}
		for _, sql := range []string{
			"UPDATE session SET expires = 0",
			"DELETE FROM watch",
		} {
			if err := t.exec(sql); err != nil {
				return err
			}
		}
		wall := time.Now().UnixNano()
		if err := t.exec("UPDATE ticket SET since = since + ?1 + wall - ends, ends = wall + ?1 WHERE flags & ?2", int64(t.now)-wall, fixed); err != nil {
			return err
		}
		return t.exec("UPDATE file SET boot = ?", s.clock.Boot)
	})
}

// Traits say that the file bounds exchanges, by its lanes and the ends of their contexts, and that
// the mailbox is there as long as the store.
func (s *store) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, Together: together}
}

// hear has the client receive an event.
func (s *store) hear(ev exchange.Event) {
	if receive := s.receiver.Load(); receive != nil {
		(*receive)(ev)
	}
}

// Exchanges counts transactions, those of the watcher too.
func (s *store) Exchanges() uint64 { return s.exchanges.Load() }

// Explain does nothing: all errors say what they mean.
func (s *store) Explain(err error) error { return err }

// Close leaves the files of sessions to their flock: they end as if the process had died.
func (s *store) Close() {
	s.mu.Lock()
	closed := s.closed.Swap(true)
	s.mu.Unlock()
	if closed {
		return
	}
	s.cancel()
	close(s.file.closing)
	s.mailbox.Close()
	s.work.Wait()

	// An exchange that is under way ends; the next ones see that the store is closed.
	s.file.lock.close()
	s.file.reading <- struct{}{}
	s.file.close()
	<-s.file.reading

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.sessions {
		o.life.Close()
	}
}

// background runs a task that Close waits for, unless the store is closed.
func (s *store) background(task func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed.Load() {
		s.work.Go(func() { task(s.ctx) })
	}
}

// Begin also makes the files by which other clients notice that the process has died: one that is locked as long as the
// session lives, and a socket. A child must get both.
func (s *store) Begin(ctx context.Context, r exchange.Session) (begun exchange.Begun, err error) {
	o := &session{id: r.ID, ttl: r.TTL, owner: r.Owner}
	if o.owner == "" {
		host, _ := os.Hostname()
		o.owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if err := s.view(ctx, func(conn, moment) error { return nil }); err != nil { // the folder may be gone with the file
		return begun, err
	}
	if o.life, err = folder.Live(s.file.folder, o.id); err != nil {
		return begun, driver.Permanent(fmt.Errorf("cannot make the files of a session in %s: %w", s.file.folder.Path, err))
	}
	var expires moment
	err = s.change(ctx, fast, func(t *tx) error {
		expires = t.now.add(o.ttl)
		if err := t.exec("INSERT INTO session(id, post, owner, ttl, expires) VALUES (?,?,?,?,?)",
			o.id, s.mailbox.Name, o.owner, o.ttl, expires); err != nil {
			return err
		}
		o.sid = t.LastInsertRowID()
		return t.exec("UPDATE file SET opened = opened + 1")
	})
	if err != nil {
		o.life.Remove()
		return begun, fullIsPermanent(err)
	}
	o.expires.Store(int64(expires))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[o.id] = o
	s.addresses[o.sid] = address{Mailbox: s.mailbox.Name, Session: o.id}
	begun.Liveness = o.life.Files()
	return begun, nil
}

// fullIsPermanent marks the error of a full disk, for exchanges that need space: else they would be
// repeated until there is some.
func fullIsPermanent(err error) error {
	if full(err) {
		return driver.Permanent(err)
	}
	return err
}

// session finds one of this client; nil if it is over.
func (s *store) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// forget removes what is kept of a session that is over.
func (s *store) forget(o *session) (tickets []*known) {
	s.mu.Lock()
	first := s.sessions[o.id] == o
	delete(s.sessions, o.id)
	s.mu.Unlock()
	if first {
		o.life.Remove()
	}
	return s.tickets.forget(o)
}

// over is called for the message that a session is over: none of its tickets stands any more but
// those with a fixed end, which only the file knows.
func (s *store) over(sid int64) {
	s.mu.Lock()
	var o *session
	for _, other := range s.sessions {
		if other.sid == sid {
			o = other
		}
	}
	s.mu.Unlock()
	if o != nil && len(s.forget(o)) > 0 {
		s.hear(exchange.Event{Type: exchange.Wake})
	}
}

// check makes sure, within an exchange, that the session stands.
func (o *session) check(t *tx) error {
	if fileclock.Steady && t.now < moment(o.expires.Load()) {
		return nil
	}
	return o.checkRow(t)
}

func (o *session) checkRow(t *tx) error {
	expires := moment(0)
	found, err := t.one("SELECT expires FROM session WHERE sid = ?", func(r *sqlite.Stmt) { expires = moment(r.ColumnInt64(0)) }, o.sid)
	switch {
	case err != nil:
		return err
	case !found:
		return driver.ErrSession
	case expires <= t.now:
		return errDue
	}
	return nil
}

// errDue undoes an exchange because a ticket in its way has expired and must be swept first.
var errDue = driver.Permanent(errors.New("sqlite: a ticket is to be swept"))

// errNothing undoes an exchange that has nothing to change.
var errNothing = driver.Permanent(errors.New("nothing to change"))

// inSession makes an exchange of a session, and again after a sweep if a ticket in its way has
// expired.
func (s *store) inSession(ctx context.Context, r exchange.Session, h how, f func(*tx, *session) error) (open bool, err error) {
	o := s.session(r.ID)
	if o == nil {
		return false, driver.ErrSession
	}
	for range 10 {
		open, err = s.changes(ctx, h, func(t *tx) error { return f(t, o) })
		if err != errDue {
			break
		}
		if err := s.sweep(ctx); err != nil {
			return false, err
		}
	}
	return open, s.outcome(r, err)
}

// outcome is what became of an exchange of a session.
func (s *store) outcome(r exchange.Session, err error) error {
	switch o := s.session(r.ID); {
	case err == errNothing:
		return nil
	case err == driver.ErrSession && o != nil:
		s.forget(o)
	}
	return err
}

// address finds out where a session is reached; the zero address if it is over.
func (t *tx) address(sid int64) (a address, err error) {
	s := t.s
	s.mu.Lock()
	a, ok := s.addresses[sid]
	s.mu.Unlock()
	if ok {
		return a, nil
	}
	ok, err = t.one("SELECT post, id FROM session WHERE sid = ?", func(r *sqlite.Stmt) {
		a = address{Mailbox: r.ColumnText(0), Session: r.ColumnText(1)}
	}, sid)
	if err == nil && ok {
		err = checkAddress(a)
	}
	if err != nil || !ok {
		return address{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.addresses) > 10_000 {
		clear(s.addresses)
	}
	s.addresses[sid] = a
	return a, nil
}
