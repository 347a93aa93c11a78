package interlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bounded"
	"github.com/interlock-go/interlock/internal/oneline"
)

// session is one life of the client at the backend: it renews what the client
// holds and waits for, and listens to what others want of it.
type session struct {
	c      *Client
	s      *driver.Opened
	ttl    time.Duration
	margin time.Duration // by which a lease ends before the backend's TTL does
	rhythm rhythm        // of heartbeats

	ctx    context.Context // ends with the session, and when Close begins
	cancel context.CancelCauseFunc

	ended atomic.Bool

	// Guarded by Client.mu.
	heard driver.Instant // when a heartbeat was answered last
	away  error          // why the last one was not; nil if it was
}

// paused is how much longer the backend grants nothing, and why; nil if it grants.
func (c *Client) paused() (left time.Duration, why error) {
	if s := c.sess.Load(); s != nil {
		left = s.s.Paused.Sub(c.d.Now())
	}
	if left > 0 {
		why = fmt.Errorf("nothing is granted for another %v, since the server has lost its locks", left.Round(100*time.Millisecond))
	}
	return left, why
}

// busy is the error of a try that would have to wait.
func (c *Client) busy() error {
	if _, why := c.paused(); why != nil {
		return &unavailable{[]error{why}, why.Error()}
	}
	return ErrBusy
}

func isSessionOver(err error) bool { return errors.Is(err, driver.ErrSession) }

// margin is what a holder gets to stop in before the backend gives its lock
// away: it covers clocks that run at different rates, a server clock that is
// set forward, and the time that it takes to deliver the news.
func margin(ttl time.Duration) time.Duration { return min(ttl/10, time.Second) }

// install makes s the client's session and starts its heartbeat. It reports
// false if the client is being closed.
func (c *Client) install(s *driver.Opened) bool {
	n := &session{c: c, s: s, ttl: s.TTL, rhythm: rhythm{sooner: make(chan struct{}, 1)}}
	n.margin = margin(n.ttl)
	n.ctx, n.cancel = context.WithCancelCause(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		n.cancel(ErrClosed)
		return false
	}
	c.sess.Store(n)
	c.sessErr, c.ttl = nil, n.ttl
	c.announce()
	c.tasks.Go(n.heartbeat)
	c.tasks.Go(n.listen)
	if n.ttl != c.cfg.ttl && c.cfg.log != nil {
		c.tasks.Go(func() {
			c.cfg.log.Info("interlock: the backend changed the TTL", "asked", c.cfg.ttl, "granted", n.ttl)
		})
	}
	return true
}

// announce wakes those who wait for a session. c.mu is held.
func (c *Client) announce() {
	close(c.sessNews)
	c.sessNews = make(chan struct{})
}

// session returns the current session. While there is none it waits for one,
// until ctx ends; the error then also says what is wrong with the backend. An error
// that will be the same next time ends the wait.
func (c *Client) session(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, news, why := c.sess.Load(), c.sessNews, c.sessErr
		c.mu.Unlock()
		if c.closing.Load() {
			return nil, ErrClosed
		}
		if s != nil {
			return s, nil
		}
		if driver.IsPermanent(why) && !isSessionOver(why) {
			return nil, why
		}
		c.waits(ctx)
		select {
		case <-news:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return nil, c.because(ctx, why)
		}
	}
}

// because says why a wait ended, and the last error of the backend if any. A wait in line, or for a change,
// asks nothing of the backend: whether that is away, its heartbeats have found out.
func (c *Client) because(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	var network *net.OpError // that of a timeout is a DeadlineExceeded, too
	if last != nil && !errors.As(last, &network) && (errors.Is(last, cause) || errors.Is(last, ctx.Err())) {
		last = nil
	}
	if last == nil && !errors.Is(ctx.Err(), context.Canceled) {
		last = c.away()
	}
	if last == nil {
		return cause
	}
	return outage(cause, oneline.Of("the backend: "+last.Error()), last)
}

// endOfWait is because, of a wait in which nothing was asked of the backend.
func (c *Client) endOfWait(ctx context.Context) error {
	_, last := c.paused()
	return c.because(ctx, last)
}

// tried is the error of a try that has ended while the wait goes on, for because: if its own time has run out, it is no
// DeadlineExceeded, which would be taken for the end of the wait.
func tried(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

// beforeRetry waits before a request is made again that has failed, or says why the call is over.
func (c *Client) beforeRetry(ctx context.Context, b *backoff.Backoff, failed error) error {
	if ctx.Err() != nil {
		return unanswered(ctx)
	}
	if b.Sleep(ctx) != nil {
		return c.because(ctx, tried(failed))
	}
	return nil
}

// away is why the last heartbeat was not answered, or why there is no session; nil if the backend is there.
func (c *Client) away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sess.Load(); s != nil {
		return s.away
	}
	return c.sessErr
}

// unanswered is because, of a request that the backend has not answered.
func unanswered(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx) // whoever cancels does not ask for the reason
	}
	return outage(context.Cause(ctx), "the backend has not answered")
}

// outage is an ErrUnavailable of a call that ended for this cause. It is no ErrBusy: whether others hold the
// lock is not known.
func outage(cause error, said string, last ...error) error {
	text := cause.Error()
	if cause == ErrBusy { // the time of Wait
		cause, text = context.DeadlineExceeded, "gave up waiting"
	}
	return &unavailable{append(last, cause), text + " (" + said + ")"}
}

// unavailable is an ErrUnavailable: why the call ended, and what the backend said last, if
// anything.
type unavailable struct {
	errs []error
	text string
}

func (u *unavailable) Error() string        { return u.text }
func (u *unavailable) Unwrap() []error      { return u.errs }
func (u *unavailable) Is(target error) bool { return target == ErrUnavailable }

// over ends the session: its leases are lost, and the client opens a new one.
func (n *session) over(err error) {
	c := n.c
	c.mu.Lock()
	n.ended.Store(true) // from now on no ticket of it is listed or granted
	if c.sess.CompareAndSwap(n, nil) {
		c.sessErr = err
		c.announce()
		if !c.closing.Load() {
			c.tasks.Go(func() { c.reopen(n) })
		}
	}
	c.mu.Unlock()
	n.cancel(err)
	c.eachTicket(func(t *ticket) { t.die(n, err) })
}

// reopen replaces the session old by a new one, for as long as that takes.
func (c *Client) reopen(old *session) {
	c.closeSession(old.s)
	var b backoff.Backoff
	began := c.d.Now()
	for {
		call := bounded.New(c.ctx, openTimeout)
		s, err := c.d.Open(call, driver.SessionOptions{TTL: c.cfg.ttl, Owner: c.cfg.owner})
		call.Release()
		switch {
		case err == nil && c.install(s):
			c.emit(c.ctx, Event{Kind: EventSession, Took: c.d.Now().Sub(began)})
			return
		case err == nil:
			c.closeSession(s)
			return
		}
		c.mu.Lock()
		c.sessErr = err
		c.announce()
		c.mu.Unlock()
		if b.Sleep(c.ctx) != nil {
			return
		}
	}
}

// closeSession ends a session that is of no use; else it runs out.
func (c *Client) closeSession(s driver.Session) {
	call := c.call(context.Background())
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
		n.doubt(errors.New("the connection to the backend is in doubt"), n.c.d.Now())
		return
	}
	t := n.c.ticket(sig.Queue, sig.ID)
	if t == nil {
		return
	}
	switch sig.Demand {
	case driver.Wanted:
		t.want()
	case driver.Revoke:
		t.revoke()
	case driver.Evict:
		t.giveUp(ErrEvicted)
	}
}
