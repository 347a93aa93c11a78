package interlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// session is one life of the client at the backend: it renews what the client
// holds and waits for, and listens to what others want of it.
type session struct {
	c      *Client
	s      driver.Session
	ttl    time.Duration
	margin time.Duration // by which a lease ends before the backend's TTL does

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	renewing context.Context // ends when renewal stops
	stop     context.CancelFunc
}

var errSessionOver = driver.ErrSession

func isSessionOver(err error) bool { return errors.Is(err, errSessionOver) }

// margin is what a holder gets to stop in before the backend gives its lock
// away: it covers clocks that run at different rates, a server clock that is
// set forward, and the time that it takes to deliver the news.
func margin(ttl time.Duration) time.Duration { return min(ttl/10, time.Second) }

// install makes s the client's session and starts its heartbeat.
func (c *Client) install(s driver.Session) {
	n := &session{c: c, s: s, ttl: s.TTL()}
	n.margin = margin(n.ttl)
	n.ctx, n.cancel = context.WithCancelCause(c.ctx)
	n.renewing, n.stop = context.WithCancel(n.ctx)
	c.mu.Lock()
	c.sess, c.sessErr = n, nil
	c.announce()
	c.mu.Unlock()
	n.tasks.Go(n.heartbeat)
	n.tasks.Go(n.listen)
	if n.ttl != c.cfg.ttl && c.cfg.log != nil {
		c.cfg.log.Info("interlock: the backend changed the TTL", "asked", c.cfg.ttl, "granted", n.ttl)
	}
}

// announce wakes those who wait for a session. c.mu is held.
func (c *Client) announce() {
	close(c.sessNews)
	c.sessNews = make(chan struct{})
}

// session returns the current session. While there is none it waits for one,
// until ctx ends; the error then also says what is wrong with the backend.
func (c *Client) session(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, news, why := c.sess, c.sessNews, c.sessErr
		c.mu.Unlock()
		if err := c.ctx.Err(); err != nil {
			return nil, ErrClosed
		}
		if s != nil {
			return s, nil
		}
		select {
		case <-news:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return nil, because(ctx, why)
		}
	}
}

// because says why a wait ended, and the last error of the backend if any.
func because(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if last == nil || errors.Is(last, cause) || errors.Is(last, ctx.Err()) {
		return cause
	}
	return &unreachable{cause, last}
}

type unreachable struct{ cause, last error }

func (u *unreachable) Error() string {
	return u.cause.Error() + " (the backend: " + u.last.Error() + ")"
}
func (u *unreachable) Unwrap() []error { return []error{u.cause, u.last} }

// heartbeat renews everything in one call, every third of the TTL. After a
// failure it tries again sooner.
func (n *session) heartbeat() {
	const beats = 3
	every := n.ttl / beats
	next := every
	for {
		if sleep(n.renewing, next) != nil {
			return
		}
		began := n.c.d.Now()
		err := n.renew()
		switch {
		case n.renewing.Err() != nil:
			return
		case isSessionOver(err):
			n.over(err)
			return
		case err != nil:
			n.doubt(err)
			next = every / 4
		default:
			n.c.emit(n.ctx, Event{Kind: EventRenewed, Took: n.c.d.Now().Sub(began)})
			next = every
		}
	}
}

func (n *session) callTimeout() time.Duration { return callTimeout(n.ttl) }

func (n *session) renew() error {
	ctx, cancel := context.WithTimeout(n.renewing, n.ttl/3)
	defer cancel()
	known := n.known()
	answer, err := n.s.Renew(ctx, known)
	if err != nil {
		return err
	}
	heard := make(map[string]bool, len(answer))
	for _, r := range answer {
		heard[r.ID] = true
		t := n.c.ticket(r.ID)
		switch {
		case r.State == driver.Stray:
			if t == nil { // else its Join crossed this renewal, or it is being left
				n.leaveStray(driver.Ticket{ID: r.ID, Queue: r.Queue})
			}
		case t == nil:
		case r.State == driver.Kept:
			t.extend(r.Proof, n.ttl, n.margin)
		case r.State == driver.Gone:
			t.gone(errors.New("the backend has forgotten it"))
		case r.State == driver.Evicted:
			t.evict()
		}
	}
	for _, k := range known {
		t := n.c.ticket(k.ID)
		switch {
		case t == nil:
		case !heard[k.ID]:
			t.doubted(errors.New("the renewal did not reach its part of the backend"))
		default:
			t.recall(n.ttl)
		}
	}
	return nil
}

// known lists the tickets that count.
func (n *session) known() []driver.Ticket {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	known := make([]driver.Ticket, 0, len(n.c.tickets))
	for _, t := range n.c.tickets {
		if k, ok := t.renewable(n); ok {
			known = append(known, k)
		}
	}
	return known
}

// leaveStray gives back a ticket that the client has given up but the backend
// still has, such as one whose Join arrived after its Leave.
func (n *session) leaveStray(t driver.Ticket) {
	n.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, n.callTimeout())
		defer cancel()
		_ = n.s.Leave(ctx, t, true) // else the next renewal reports it again
	})
}

// doubt marks every lease of the session.
func (n *session) doubt(err error) {
	for _, k := range n.known() {
		if t := n.c.ticket(k.ID); t != nil {
			t.doubted(err)
		}
	}
}

// listen delivers signals to their tickets.
func (n *session) listen() {
	var b backoff
	for n.ctx.Err() == nil {
		sig, err := n.s.Signals(n.ctx)
		switch {
		case err == nil:
			b = backoff{}
			n.deliver(sig)
		case isSessionOver(err):
			n.over(err)
			return
		default:
			_ = b.sleep(n.ctx)
		}
	}
}

func (n *session) deliver(sig driver.Signal) {
	if sig.Demand == driver.Doubt {
		n.doubt(errors.New("the connection to the backend is in doubt"))
		return
	}
	t := n.c.ticket(sig.ID)
	if t == nil {
		return
	}
	switch sig.Demand {
	case driver.Wanted:
		t.want()
	case driver.Revoke:
		t.revoke()
	case driver.Evict:
		t.evict()
	}
}

// over ends the session: its leases are lost, and the client opens a new one.
func (n *session) over(err error) {
	c := n.c
	c.mu.Lock()
	if c.sess != n || c.closing {
		c.mu.Unlock()
		n.loseAll(err)
		return
	}
	c.sess, c.sessErr = nil, err
	c.announce()
	c.tasks.Go(func() { c.reopen(n) })
	c.mu.Unlock()
	n.loseAll(err)
}

func (n *session) loseAll(err error) {
	n.cancel(err)
	n.c.mu.Lock()
	var mine []*ticket
	for _, t := range n.c.tickets {
		if t.diesWith(n) {
			mine = append(mine, t)
		}
	}
	n.c.mu.Unlock()
	for _, t := range mine {
		t.gone(err)
	}
}

// reopen replaces the session old by a new one, for as long as that takes.
func (c *Client) reopen(old *session) {
	old.tasks.Wait()
	ctx, cancel := context.WithTimeout(c.ctx, old.callTimeout())
	_ = old.s.Close(ctx)
	cancel()
	var b backoff
	began := c.d.Now()
	for {
		ctx, cancel := c.callContext(c.ctx)
		s, err := c.d.Open(ctx, driver.SessionOptions{TTL: c.cfg.ttl, Owner: c.cfg.owner})
		cancel()
		c.mu.Lock()
		closing := c.closing
		if err != nil {
			c.sessErr = err
		}
		c.mu.Unlock()
		switch {
		case closing:
			if err == nil {
				_ = s.Close(context.Background())
			}
			return
		case err == nil:
			c.install(s)
			c.emit(c.ctx, Event{Kind: EventSession, Took: c.d.Now().Sub(began)})
			return
		}
		if b.sleep(c.ctx) != nil {
			return
		}
	}
}

// stopRenewing lets the leases run out.
func (n *session) stopRenewing() { n.stop() }
