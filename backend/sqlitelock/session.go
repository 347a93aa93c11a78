package sqlitelock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

const (
	defaultTTL = 15 * time.Second // of a session that is over, for its evicted tickets
	minTTL     = 100 * time.Millisecond
	maxTTL     = 24 * time.Hour
)

type session struct {
	d     *Driver
	id    string
	sid   int64
	ttl   time.Duration
	owner string
	life  *life

	// expires is a moment before which the session stands for certain.
	expires atomic.Int64

	// guarded by d.tickets.mu
	proof   driver.Instant // of the last renewal
	over    bool
	signals []driver.Signal
	bell    chan struct{} // closed when there is a signal; nil while nobody listens
}

var _ driver.Session = (*session)(nil)

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Open starts a session. Its TTL is kept between 100 ms and a day.
func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &session{d: d, id: newID(), ttl: min(max(o.TTL, minTTL), maxTTL), owner: o.Owner}
	if s.owner == "" {
		host, _ := os.Hostname()
		s.owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	var err error
	if s.life, err = live(d.file.folder, s.id); err != nil {
		return nil, driver.Permanent(fmt.Errorf("cannot make the files of a session in %s: %w", d.file.folder.path, err))
	}
	s.proof = driver.Now()
	var expires moment
	err = d.change(ctx, fast, func(t *tx) error {
		expires = t.now.add(s.ttl)
		if err := t.exec("INSERT INTO session(id, post, owner, ttl, expires) VALUES (?,?,?,?,?)",
			s.id, d.post.name, s.owner, s.ttl, expires); err != nil {
			return err
		}
		s.sid = t.LastInsertRowID()
		return t.exec("UPDATE file SET opened = opened + 1")
	})
	if err != nil {
		s.life.remove()
		if full(err) {
			err = driver.Permanent(err)
		}
		return nil, err
	}
	s.expires.Store(int64(expires))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s.sid] = s
	d.addresses[s.sid] = address{d.post.name, s.id}
	return &driver.Opened{Session: s, ID: s.id, TTL: s.ttl, Liveness: s.life.files()}, nil
}

func (s *session) Close(ctx context.Context) error {
	if s.isOver() {
		return driver.ErrSession
	}
	err := s.d.change(ctx, keep, func(t *tx) error {
		s.expires.Store(0)
		return t.exec("UPDATE session SET expires = 0 WHERE sid = ?", s.sid)
	})
	if err != nil {
		return err
	}
	if err = s.d.sweep(ctx); err != nil {
		// It is over already, whether or not the caller tries again.
		s.d.background(func(ctx context.Context) { _ = s.d.sweep(ctx) })
		return err
	}
	s.end()
	return nil
}

func (s *session) isOver() bool {
	s.d.tickets.mu.Lock()
	defer s.d.tickets.mu.Unlock()
	return s.over
}

// end takes note that the session is over, and its tickets with it.
func (s *session) end() {
	ts := &s.d.tickets
	ts.mu.Lock()
	first := !s.over
	s.over = true
	s.ring()
	for _, t := range ts.byID {
		if t.owner == s && !(t.hold && t.state == held) {
			ts.end(t)
		}
	}
	ts.mu.Unlock()
	if first {
		s.d.mu.Lock()
		delete(s.d.sessions, s.sid)
		s.d.mu.Unlock()
		s.life.remove()
	}
}

// check makes sure, within an exchange, that the session stands.
func (s *session) check(t *tx) error {
	if steady && t.now < moment(s.expires.Load()) {
		return nil
	}
	return s.checkRow(t)
}

func (s *session) checkRow(t *tx) error {
	expires := moment(0)
	found, err := t.one("SELECT expires FROM session WHERE sid = ?", func(r *sqlite.Stmt) { expires = moment(r.ColumnInt64(0)) }, s.sid)
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

// exchange runs an exchange of a session, and again after a sweep if something in
// its way has ended by itself.
func (s *session) exchange(ctx context.Context, h how, f func(*tx) error) (open bool, err error) {
	for range 10 {
		if s.isOver() {
			return false, driver.ErrSession
		}
		open, err = s.d.changes(ctx, h, f)
		if err != errDue {
			break
		}
		if err := s.d.sweep(ctx); err != nil {
			return false, err
		}
	}
	if err == driver.ErrSession {
		s.end()
	}
	return open, err
}
