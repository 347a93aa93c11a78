package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
)

// session is one life of the client at the backend: it renews what the client
// holds and waits for, and listens to what others want of it.
type session struct {
	e        *Engine
	s        *driver.Opened
	ttl      time.Duration
	margin   time.Duration // by which a lease ends before the backend's TTL does
	schedule schedule      // of heartbeats

	ctx    context.Context // ends with the session, and when Close begins
	cancel context.CancelCauseFunc

	ended atomic.Bool
	alive atomic.Int64 // when the last heartbeat began that was answered, or the session was opened

	// Guarded by the mutex of the engine.
	heard driver.Instant // when a heartbeat was answered last
	away  error          // why the last one was not; nil if it was
}

func isSessionOver(err error) bool { return errors.Is(err, driver.ErrSession) }

// margin is what a holder gets to stop in before the backend gives its lock
// away: it covers clocks that run at different rates, a server clock that is
// set forward, and the time that it takes to deliver the news.
func margin(ttl time.Duration) time.Duration { return min(ttl/10, time.Second) }

// install makes s the client's session and starts its heartbeat. It reports
// false if the client is being closed.
func (e *Engine) install(s *driver.Opened) bool {
	n := &session{e: e, s: s, ttl: s.TTL, schedule: schedule{sooner: make(chan struct{}, 1)}}
	n.margin = margin(n.ttl)
	n.alive.Store(int64(e.d.Now()))
	n.ctx, n.cancel = context.WithCancelCause(e.ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing.Load() {
		n.cancel(ErrClosed)
		return false
	}
	e.sess.Store(n)
	e.sessErr, e.ttl = nil, n.ttl
	e.announce()
	e.tasks.Go(n.heartbeat)
	e.tasks.Go(n.listen)
	if n.ttl != e.cfg.TTL && e.cfg.Changed != nil {
		e.tasks.Go(func() { e.cfg.Changed(n.ttl) })
	}
	return true
}

// announce wakes those who wait for a session. The mutex is held.
func (e *Engine) announce() {
	close(e.sessNews)
	e.sessNews = make(chan struct{})
}

// session returns the current session. While there is none it waits for one,
// until ctx ends; the error then also says what is wrong with the backend. An error
// that will be the same next time ends the wait.
func (e *Engine) session(ctx context.Context, by Holder) (*session, error) {
	for {
		e.mu.Lock()
		s, news, why := e.sess.Load(), e.sessNews, e.sessErr
		e.mu.Unlock()
		if e.closing.Load() {
			return nil, ErrClosed
		}
		if s != nil {
			return s, nil
		}
		if driver.IsPermanent(why) && !isSessionOver(why) {
			return nil, why
		}
		waits(by)
		select {
		case <-news:
		case <-e.ctx.Done():
		case <-ctx.Done():
			return nil, e.Because(ctx, why)
		}
	}
}

// over ends the session: its leases are lost, and the client opens a new one.
func (n *session) over(err error) {
	e := n.e
	e.mu.Lock()
	n.ended.Store(true) // from now on no ticket of it is listed or granted
	if e.sess.CompareAndSwap(n, nil) {
		e.sessErr = err
		e.announce()
		if !e.closing.Load() {
			e.tasks.Go(func() { e.reopen(n) })
		}
	}
	e.mu.Unlock()
	n.cancel(err)
	e.eachTicket(func(t *ticket) { t.die(n, err) })
}

// reopen replaces the session old by a new one, for as long as that takes.
func (e *Engine) reopen(old *session) {
	e.closeSession(old.s)
	var b backoff.Backoff
	began := e.d.Now()
	for {
		call := bounded.New(e.ctx, openTimeout)
		s, err := e.d.Open(call, driver.SessionOptions{TTL: e.cfg.TTL, Owner: e.cfg.Owner})
		call.Release()
		switch {
		case err == nil && e.install(s):
			if e.cfg.Observed {
				e.cfg.Reopened(e.ctx, e.d.Now().Sub(began))
			}
			return
		case err == nil:
			e.closeSession(s)
			return
		}
		e.mu.Lock()
		e.sessErr = err
		e.announce()
		e.mu.Unlock()
		if b.Sleep(e.ctx) != nil {
			return
		}
	}
}

// closeSession ends a session that is of no use; else it runs out.
func (e *Engine) closeSession(s driver.Session) {
	call := e.Call(context.Background())
	defer call.Release()
	_ = s.Close(call)
}

// listen delivers signals to their tickets.
func (n *session) listen() {
	var b backoff.Backoff
	for n.ctx.Err() == nil {
		sig, err := n.s.Signals(n.ctx)
		switch {
		case err == nil:
			b = backoff.Backoff{}
			n.deliver(sig)
		case n.ctx.Err() != nil:
			return
		case isSessionOver(err):
			n.over(err)
			return
		default:
			_ = b.Sleep(n.ctx)
		}
	}
}

func (n *session) deliver(sig driver.Signal) {
	if sig.Demand == driver.Doubt {
		n.doubt(errors.New("the connection to the backend is in doubt"), n.e.d.Now())
		return
	}
	t := n.e.ticket(sig.Queue, sig.ID)
	if t == nil {
		return
	}
	switch sig.Demand {
	case driver.Wanted:
		t.want()
	case driver.Revoke:
		t.revoke()
	case driver.Evict:
		t.lose(ErrEvicted, true)
	}
}
