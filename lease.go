package interlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Lease is a lock that is held, until it is released or lost. It is lost at
// its deadline, by the local clock, whether or not the backend can be reached;
// the deadline moves with every renewal, and lies before the time at which the
// backend can give the lock to another. Every method judges that anew, so that
// a process that was stopped for a while is told at its next call.
type Lease struct {
	t    *ticket
	lock *Lock
	g    *grant
	ctx  context.Context // of the acquire, for events

	once   sync.Once
	result error

	// The rest is guarded by t.mu.
	at      int // in t.leases
	err     error
	done    chan struct{} // made when it is asked for
	revoked chan struct{} // made when it is asked for
	bound   map[*binding]struct{}
	body    bool // the lease of a running Do
}

// grant is one local turn; nested leases share it.
type grant struct {
	number    uint64 // among those of the ticket, from 0
	since     driver.Instant
	inherited bool
	exclusive bool
	leases    int
}

// binding is a context that ends with the lease.
type binding struct{ cancel context.CancelCauseFunc }

func isGone(err error) bool { return errors.Is(err, driver.ErrGone) }

func leaseID(ticket string, number uint64) string {
	return ticket + "." + strconv.FormatUint(number, 10)
}

// ticketID returns the ticket's part of the ID of a lease or of a ticket.
func ticketID(id string) string {
	ticket, _, _ := strings.Cut(id, ".")
	return ticket
}

// closedChan serves all leases that were over when their channel was asked for.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// grant starts a new turn. It fails if the ticket is not held any more.
func (t *ticket) grant(ctx context.Context, lock *Lock) (*Lease, error) {
	now := t.c.d.Now()
	t.mu.Lock()
	if after := t.judge(now); t.state != ticketHeld {
		t.mu.Unlock()
		t.c.background(after) // it locks the line, as our caller does
		return nil, ErrLost
	}
	defer t.mu.Unlock()
	g := &grant{number: t.grants, since: now, exclusive: lock.exclusive()}
	g.inherited = g.number == 0 && t.tk.Inherited
	t.grants++
	t.live++
	return t.handle(ctx, lock, g), nil
}

// handle makes a lease of a grant. t.mu is held.
func (t *ticket) handle(ctx context.Context, lock *Lock, g *grant) *Lease {
	l := &Lease{t: t, lock: lock, g: g, ctx: context.WithoutCancel(ctx), at: len(t.leases)}
	g.leases++
	t.leases = append(t.leases, l)
	return l
}

// nest makes another lease of a live grant.
func (l *Lease) nest(ctx context.Context, lock *Lock) (*Lease, error) {
	defer l.locked()()
	if l.err != nil {
		return nil, l.err
	}
	return l.t.handle(ctx, lock, l.g), nil
}

// locked locks the ticket and judges its deadline; the result unlocks it.
func (l *Lease) locked() (unlock func()) {
	now := l.t.c.d.Now()
	l.t.mu.Lock()
	after := l.t.judge(now)
	return func() {
		l.t.mu.Unlock()
		after()
	}
}

// end makes err the lease's fate. t.mu is held; the caller calls the result,
// which ends the bound contexts, after unlocking.
func (l *Lease) end(err error) func() {
	l.err = err
	if l.done != nil {
		close(l.done)
	}
	bound := l.bound
	l.bound = nil
	return func() {
		for b := range bound {
			b.cancel(l.fail("hold", err))
		}
	}
}

func (l *Lease) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: l.t.name, Err: err}
}

// ID names this grant, for Adopt, Evict and Revoke.
func (l *Lease) ID() string { return leaseID(l.t.req.ID, l.g.number) }

// Token is the fencing token: 0 < t < 1<<63. For exclusive leases of one name
// it grows with every grant, over crashes and restarts, so that a resource can
// refuse the late write of an old holder. Tokens of shared leases cannot be
// compared.
func (l *Lease) Token() uint64 { return l.t.tk.Token<<tokenBits | l.g.number }

// BackendToken is the number that other programs on the same backend see, such
// as a revision or a zxid. Grants within one process share it.
func (l *Lease) BackendToken() uint64 { return l.t.tk.Token }

// Exclusive reports whether nobody else can hold any part of the lock: a
// mutex, a writer, a semaphore's whole capacity. Only then may its token be
// compared with others.
func (l *Lease) Exclusive() bool {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.g.exclusive
}

// Name is the lock's name, without the client's prefix.
func (l *Lease) Name() string { return l.t.name }

// Deadline is when the lease is lost unless it is renewed before. It moves
// with every renewal.
func (l *Lease) Deadline() time.Time {
	l.t.mu.Lock()
	deadline := l.t.deadline
	l.t.mu.Unlock()
	return time.Now().Add(deadline.Sub(l.t.c.d.Now()))
}

// Remaining is the time to the deadline by the steady clock that decides; 0 if
// the lease is over.
func (l *Lease) Remaining() time.Duration {
	defer l.locked()()
	if l.err != nil {
		return 0
	}
	return max(0, l.t.deadline.Sub(l.t.c.d.Now()))
}

// InDoubt reports that the last renewal failed: the lease is lost at its
// deadline unless one succeeds. Careful work pauses.
func (l *Lease) InDoubt() bool {
	defer l.locked()()
	return l.err == nil && l.t.doubt
}

// Done is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} {
	defer l.locked()()
	if l.done == nil {
		if l.err != nil {
			return closedChan
		}
		l.done = make(chan struct{})
	}
	return l.done
}

// Err is nil while the lease is held, then it wraps ErrLost or ErrReleased.
func (l *Lease) Err() error {
	defer l.locked()()
	return l.err
}

// Inherited reports that the last exclusive holder died, or left its work
// unfinished: what the lock protects may be half changed. It is known with the
// option Robust.
func (l *Lease) Inherited() bool { return l.g.inherited }

// Revoked is closed when somebody asks for the lock (see [Client.Revoke]). It
// is a request: the lease stays until it is released.
func (l *Lease) Revoked() <-chan struct{} {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if l.revoked == nil {
		l.revoked = make(chan struct{})
		if l.t.revoked {
			close(l.revoked)
		}
	}
	return l.revoked
}

// signalRevoked is called once for each lease, with t.mu held.
func (l *Lease) signalRevoked() {
	if l.revoked == nil {
		return
	}
	select {
	case <-l.revoked:
	default:
		close(l.revoked)
	}
}

// Bind returns a context that ends with the lease, with a cause that wraps
// ErrLost or ErrReleased, and that carries the lease: whoever is given it is
// the holder (see [Lock.Held] and [Reentrant]). Call the function to free it.
func (l *Lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(carry(ctx, l))
	b := &binding{cancel}
	unlock := l.locked()
	err := l.err
	if err == nil {
		if l.bound == nil {
			l.bound = map[*binding]struct{}{}
		}
		l.bound[b] = struct{}{}
	}
	unlock()
	if err != nil {
		cancel(l.fail("hold", err))
	}
	return ctx, func() {
		l.t.mu.Lock()
		delete(l.bound, b)
		l.t.mu.Unlock()
		cancel(context.Canceled)
	}
}

// Extend makes a lease of Hold end d from now, sooner or later than before. An
// exchange whose reply is lost is repeated until ctx ends.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.t.req.Hold == 0 {
		return l.fail("extend", fmt.Errorf("only a lease of Hold has a fixed end; this one is renewed by itself"))
	}
	if d <= 0 {
		return l.fail("extend", fmt.Errorf("the time %v is not positive", d))
	}
	var b backoff
	for {
		if err := l.Err(); err != nil {
			return l.fail("extend", err)
		}
		proof := l.t.c.d.Now()
		err := l.t.exchange(ctx, l.t.sess.callTimeout(), func(ctx context.Context, s driver.Session) error {
			return s.Keep(ctx, l.t.tk, d)
		})
		switch {
		case err == nil:
			l.t.setEnd(proof.Add(d), margin(d))
			return nil
		case isGone(err):
			l.t.gone(err)
			return l.fail("extend", ErrLost)
		case driver.IsPermanent(err) && !isSessionOver(err):
			return l.fail("extend", err)
		}
		if b.sleep(ctx) != nil {
			return l.fail("extend", because(ctx, err))
		}
	}
}

// setEnd moves the end of a ticket with a fixed one.
func (t *ticket) setEnd(end driver.Instant, spare time.Duration) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end, t.deadline = end, end.Add(-spare)
	t.c.watchDeadline(t.deadline)
}

// Downgrade turns a writer's lease into a reader's, without letting another
// writer in between: waiting readers get in beside it. An exchange whose reply
// is lost is repeated until ctx ends.
func (l *Lease) Downgrade(ctx context.Context) error {
	if l.lock.kind != driver.RWMutex {
		return l.fail("downgrade", fmt.Errorf("a %s has no readers", l.lock.kind))
	}
	unlock := l.locked()
	err, shared, nested := l.err, !l.g.exclusive, l.g.leases > 1
	unlock()
	switch {
	case err != nil:
		return l.fail("downgrade", err)
	case shared:
		return nil
	case nested:
		return l.fail("downgrade", fmt.Errorf("the lock was acquired again by this holder; release that first"))
	}
	var b backoff
	for {
		err := l.t.exchange(ctx, l.t.sess.callTimeout(), func(ctx context.Context, s driver.Session) error {
			return s.Shrink(ctx, l.t.tk, 1)
		})
		switch {
		case err == nil:
			l.becomeReader()
			return nil
		case isGone(err) || isSessionOver(err):
			l.t.gone(err)
			return l.fail("downgrade", ErrLost)
		case driver.IsPermanent(err):
			return l.fail("downgrade", err)
		}
		if b.sleep(ctx) != nil {
			return l.fail("downgrade", because(ctx, err))
		}
		if err := l.Err(); err != nil {
			return l.fail("downgrade", err)
		}
	}
}

// becomeReader takes the ticket away from the line of writers.
func (l *Lease) becomeReader() {
	n := l.t.line
	l.t.mu.Lock()
	l.g.exclusive = false
	l.t.line = nil
	l.t.mu.Unlock()
	if n != nil {
		n.lost(l.t)
	}
}

// Release gives the lock up: first the bound contexts end, then the next
// waiter is served. It takes no context: it is repeated until the backend has
// confirmed it or the lease has run out. It returns an error that wraps
// ErrLost if the lock was no longer held; calling it again returns the same.
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
	if l.err == ErrReleased { // by Close
		t.mu.Unlock()
		return nil
	}
	if l.err != nil {
		t.unacked--
		acknowledged := t.unacked == 0
		err := l.err
		t.mu.Unlock()
		after()
		if acknowledged {
			t.acknowledge()
		}
		return err
	}
	ends := l.end(ErrReleased)
	t.remove(l)
	l.g.leases--
	over := l.g.leases == 0
	t.mu.Unlock()
	ends()
	if !over {
		return nil
	}
	t.c.emit(l.ctx, Event{Kind: EventReleased, Name: t.name, Token: l.Token(), Took: now.Sub(l.g.since)})
	if n := t.inLine(); n != nil {
		return n.release(t, clean)
	}
	if keep := t.since.Add(l.lock.cfg.atLeast).Sub(now); keep > 0 {
		return t.leaveAfter(keep)
	}
	return t.leave(clean)
}

// remove takes a lease off the list. t.mu is held.
func (t *ticket) remove(l *Lease) {
	last := t.leases[len(t.leases)-1]
	t.leases[l.at] = last
	last.at = l.at
	t.leases = t.leases[:len(t.leases)-1]
}

// Liveness returns the open files whose last close, in whatever process, ends
// the lease's session: a child process that inherits them keeps the lock of a
// parent that was killed, though no longer than its TTL. Most backends have
// none.
func (l *Lease) Liveness() []*os.File { return l.t.sess.s.Liveness() }
