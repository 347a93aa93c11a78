package interlock

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/interlock-go/interlock/internal/engine"
)

// ClientOption configures a client.
type ClientOption func(*clientConfig)

type clientConfig struct {
	ttl       time.Duration
	prefix    string
	owner     string
	backend   string // the scheme of the URL, if there is one
	log       *slog.Logger
	observers []func(context.Context, Event)
}

// DefaultTTL is how long a lease outlives the last renewal that the backend
// has seen, unless TTL says otherwise. Renewal is three times as frequent.
const DefaultTTL = 15 * time.Second

const minTTL = 100 * time.Millisecond

func defaultConfig() clientConfig {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return clientConfig{ttl: DefaultTTL, owner: fmt.Sprintf("%s:%d", host, os.Getpid())}
}

// TTL asks for leases that outlive their last renewal by d: the time after
// which the lock of a dead client frees itself. It is 100 ms to 24 h. Default 15 s; in the
// URL: ttl=10s. See [Client.TTL] for what the backend granted.
func TTL(d time.Duration) ClientOption { return func(c *clientConfig) { c.ttl = d } }

// Prefix is put before every name, and is part of it. Default none; in the URL: prefix=app/.
func Prefix(p string) ClientOption { return func(c *clientConfig) { c.prefix = p } }

// Owner is what inspection shows of this client, in at most 512 bytes. Default host:pid; in the URL:
// owner=….
func Owner(s string) ClientOption { return func(c *clientConfig) { c.owner = s } }

// Logger logs events: what was lost, overruns or is in doubt as a warning, new sessions and tries of an Acquire that
// failed for information (of each Acquire once a second at most), all others for debugging. The keys are in
// docs/telemetry.md. Default silent.
func Logger(l *slog.Logger) ClientOption { return func(c *clientConfig) { c.log = l } }

// Observe calls f after each event. f must not block. A panic of f is logged, and goes no further. Repeatable.
func Observe(f func(context.Context, Event)) ClientOption {
	return func(c *clientConfig) { c.observers = append(c.observers, f) }
}

// Option configures a lock.
type Option func(*lockConfig)

type lockConfig struct {
	engine.Request
	wait   time.Duration
	waits  bool // wait is set
	weight int64
	names  bool      // the holders of a busy lock
	breaks []*Client // with which deadlocks are looked for; nil: they are not
	err    error
}

// Wait bounds how long an acquire waits; then ErrBusy. It never bounds how
// long the lock is held. 0 does not wait at all.
func Wait(d time.Duration) Option {
	return func(c *lockConfig) { c.wait, c.waits = d, true }
}

// minTime and maxTime bound [ExpiresAfter] and [AtMost], and maxTime bounds [AtLeast] and [Lease.Extend], too.
const (
	minTime = time.Millisecond
	maxTime = 50 * 365 * 24 * time.Hour
)

// ExpiresAfter acquires for a fixed time from the grant. The lease is not renewed,
// outlives the client, and can be released by another process (see
// [Client.Adopt]). See [Lease.Extend]. A bound on a lease that is renewed is [AtMost].
//
// d is a millisecond to fifty years. A time that is over before the answer of the backend comes is no use:
// Acquire tries again until ctx ends.
//
// As every lease it ends before the backend gives the lock to another: by a tenth of d, and by
// a second at most. So ExpiresAfter(4*time.Second) can be used for 3.6 s, and ExpiresAfter(time.Minute)
// for 59 s; others are kept out for 4 s and a minute. If another process that has adopted it ends it, this
// one learns of that with its next heartbeat, a third of the TTL later at most, and believes
// in its lease until then.
func ExpiresAfter(d time.Duration) Option {
	return func(c *lockConfig) {
		c.Hold = d
		if d < minTime || d > maxTime {
			c.err = fmt.Errorf("ExpiresAfter(%v): the time must be %v to %v", d, minTime, maxTime)
		}
	}
}

// AtLeast keeps others out until d after the grant, even if the lease is
// released sooner: a scheduled job then runs once although the clocks of its
// machines differ. d is at most fifty years. The holder's death ends it as it ends any lease, and so does
// a panic in [Lock.Do] of a lock with [ReportDeath], so that the next holder is told.
func AtLeast(d time.Duration) Option {
	return func(c *lockConfig) {
		c.AtLeast = d
		if d < 0 || d > maxTime {
			c.err = fmt.Errorf("AtLeast(%v): the time must be 0 to %v", d, maxTime)
		}
	}
}

// AtMost bounds how long the lock is held: d after the grant the lease is lost, as if it had not been
// renewed, and its deadline ([Lease.Deadline]) says so from the beginning. Contexts that are bound to it end
// with ErrLost as their cause; its text, which the event has, too, names AtMost. The lock passes on when the
// lease is released, or a TTL later at most. [Election.Lead] stands again then. With [All] it bounds each
// lock. An acquire that finds the lock held by its context ([Reentrant]) is bounded as that lease is.
//
// d is a millisecond to fifty years, and at least [AtLeast]. A lock that [ExpiresAfter] acquires has its end already,
// and one that is [Sticky] is kept by the client: together with these AtMost is ErrInvalid. Goroutines of one process
// do not pass such a lock among themselves.
func AtMost(d time.Duration) Option {
	return func(c *lockConfig) {
		c.AtMost = d
		if d < minTime || d > maxTime {
			c.err = fmt.Errorf("AtMost(%v): the time must be %v to %v", d, minTime, maxTime)
		}
	}
}

// Weight acquires n permits of a semaphore at once, at least 1. Default 1.
func Weight(n int64) Option {
	return func(c *lockConfig) {
		c.weight = n
		if n < 1 {
			c.err = fmt.Errorf("Weight(%d): at least one permit is acquired", n)
		}
	}
}

// Reentrant makes an acquire with a context that holds the lock already (that of
// [Lock.Do], or of [Lease.Bind]) succeed at once, and count: the lock is released when all
// its leases are. More permits of a semaphore than the context holds are acquired beside
// those.
func Reentrant() Option { return func(c *lockConfig) { c.Reentrant = true } }

// ReportDeath tells the next holder if this one dies or leaves its work unfinished, and this one of the last:
// [Lease.Inherited]. On some backends it costs one read. All who use a lock
// so ask for it: Redis does not keep word of how a holder without ReportDeath left, and tells the
// next one that it has died.
func ReportDeath() Option { return func(c *lockConfig) { c.ReportDeath = true } }

// Sticky keeps the backend's lock after the last local release until somebody
// else waits for it, or it was idle for a TTL, so that the next local acquire is
// free of exchanges. A TryAcquire elsewhere does not wait, and finds it busy. Only
// mutexes and read-write locks are kept, and not together with [StrictOrder], [ExpiresAfter],
// [AtLeast] or [AtMost]: ErrInvalid.
func Sticky() Option { return func(c *lockConfig) { c.Sticky = true } }

// StrictOrder serves all waiters of all processes in the order of their calls:
// goroutines of one process do not pass the lock among themselves while others
// wait. It costs an exchange for each acquire and each release. Where more than 64
// goroutines of one client wait, those behind them come to the common line later: behind
// whoever of other clients was there before, and in their order, but that up to 64 may
// overtake each other.
func StrictOrder() Option { return func(c *lockConfig) { c.Strict = true } }

// BreakDeadlocks makes an acquire fail with ErrDeadlock if it waits in a deadlock, as [Deadlocks] finds it
// through the lock's own client and these clients, and no younger wait breaks it. The wait that began last,
// by the clocks of their machines, looks when it has waited for a TTL, and then fails. Others fail only if
// the deadlock stands for four TTLs more for each younger wait with this option. They look again less and
// less often. The caller then releases what it holds, and may try again. A wait that holds nothing else, or
// has a time limit, is in no deadlock.
func BreakDeadlocks(others ...*Client) Option {
	return func(c *lockConfig) { c.breaks = append([]*Client{}, others...) }
}

// Note is shown by inspection; more than 4096 bytes are ErrInvalid. Goroutines that get the
// lock from each other share the note of the one that got it from the backend.
func Note(s string) Option { return func(c *lockConfig) { c.Note = s } }
