package interlock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Release gives the lock up: first the bound contexts end, then the next
// waiter is served. It takes no context: it is repeated until the backend has
// confirmed it or the lease has run out; for a lease of Hold, for one TTL. It
// returns an error that wraps ErrLost if the lock was no longer held; calling
// it again returns the same.
func (l *Lease) Release() error { return l.release(true) }

// abort is Release for work that may be half done: the next holder is told.
func (l *Lease) abort() error { return l.release(false) }

func (l *Lease) release(clean bool) error {
	l.once.Do(func() { l.result = l.fail("release", l.releaseOnce(clean)) })
	return l.result
}

func (l *Lease) releaseOnce(clean bool) error {
	t := l.t
	now := t.c.d.Now()
	t.mu.Lock()
	after := t.judge(now)
	if err := l.err; err != nil {
		t.unacked--
		acknowledged := t.unacked == 0
		t.mu.Unlock()
		after()
		if acknowledged {
			t.acknowledge()
		}
		if err == ErrReleased { // by Close
			return nil
		}
		return err
	}
	unbind := l.end(ErrReleased)
	t.remove(l)
	g := l.g
	g.leases--
	g.unclean = g.unclean || !clean
	over, clean, n := g.leases == 0, !g.unclean, t.line
	keep := l.keep(now)
	t.mu.Unlock()
	unbind()
	if !over {
		return nil
	}
	if t.c.cfg.observed() && !l.unseen {
		t.c.emit(l.ctx, Event{Kind: EventReleased, Name: t.name, Token: l.Token(), Took: now.Sub(g.since)})
	}
	switch {
	case n != nil:
		return n.release(t, clean, now)
	case keep > 0 && (clean || !t.req.Robust):
		return t.leaveAfter(keep)
	}
	return t.leave(clean)
}

// keep is how long others are to be kept out after the release. t.mu is held.
func (l *Lease) keep(now driver.Instant) time.Duration {
	if l.lock.cfg.atLeast == 0 {
		return 0
	}
	return l.t.since.Add(l.lock.cfg.atLeast).Sub(now)
}

// remove takes a lease off the list. t.mu is held.
func (t *ticket) remove(l *Lease) {
	last := t.leases[len(t.leases)-1]
	t.leases[l.at] = last
	last.at = l.at
	t.leases[len(t.leases)-1] = nil
	t.leases = t.leases[:len(t.leases)-1]
}
