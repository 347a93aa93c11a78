// Package interlock is distributed locks: what package sync is for the goroutines
// of one process, for all processes that reach one backend. A backend is a server
// (Redis, ZooKeeper, etcd, PostgreSQL, MySQL, MariaDB), a file of one machine
// (SQLite, lock files), or memory, for tests.
//
//	c, err := interlock.Open(ctx, "sqlite:locks.db")
//	…
//	err = c.Mutex("report").Do(ctx, func(ctx context.Context) error {
//		return work(ctx) // nobody else is here; ctx ends if the lock is lost
//	})
//
// The backend is imported for its effect, as with database/sql:
//
//	import _ "github.com/interlock-go/interlock/backend/sqlitelock"
//
// A process needs one [Client]. All methods may be called by many goroutines.
//
// # What there is
//
//	sync.Mutex               Client.Mutex
//	sync.RWMutex             Client.RWMutex; a writer can become a reader: Lease.Downgrade
//	semaphore.Weighted       Client.Semaphore
//	sync.WaitGroup           Client.Latch
//	atomic compare-and-swap  NewValue
//	a map of mutexes         Client.Striped, or a Mutex for each name
//	–                        Client.Election: one process leads
//	–                        Client.Barrier, Client.DoubleBarrier: begin together
//	–                        All: several locks as one
//
// A [Lock] is a name and some options. It has no state, so make one wherever it
// is needed. [Lock.Do] is the usual way. [Lock.Acquire] and [Lock.TryAcquire]
// return a [Lease], for those who release it themselves.
//
// # What differs from package sync
//
// A lock can be lost while it is held: the network is away, the process was
// stopped, somebody evicts it. So it is held for a time only, the TTL, and the client
// renews all its leases every third of that. It judges by its own clock when a lease
// is over, before the backend can give the lock to another. Then the context that Do
// hands to its function ends, and so does that of [Lease.Bind], with a cause that
// wraps [ErrLost]. Work that follows its context is over when the next holder
// starts. Work that does not is two holders' work. From the first failed renewal to the
// loss, [Lease.InDoubt] tells careful work to pause.
//
// When the process dies, its leases end with the [TTL], or sooner where the backend
// notices. The next waiter is served then: first come, first served, over all processes.
//
// No lock can stop a write that is on its way already when the lease is lost.
// [Lease.Token] is a number that grows with every exclusive grant. A resource
// that remembers the largest that it has seen, and refuses smaller ones, is safe
// from late writes: see package fence.
//
// # The context
//
// The context of Acquire bounds the wait, never the hold; [Wait] does so for Do. When it ends,
// nothing stays behind. [Lease.Release] takes none.
//
// The context is also the holder. Goroutines that are given the context of Do or Bind
// hold the lock together. With it, [LeaseFrom] finds the lease, and acquiring the
// lock again is [ErrDeadlock], or counts up if the lock is [Reentrant]. A context
// from elsewhere holds nothing, nor does one from [Detach].
//
// # Within one process
//
// Goroutines that want the same mutex, or the same side of a read-write lock,
// hand it on among themselves without asking the backend, each with a larger
// token: for a bounded number of times, and a bounded time, while others wait.
// [StrictOrder] switches that off, [Sticky] keeps the lock for the next of them.
//
// # Options
//
// Options go to the constructor or to [Lock.With].
//
//   - [Wait] bounds the wait.
//   - [ExpiresAfter] acquires for a fixed time. Another process that knows the ID of the lease can extend or end it:
//     [Client.Adopt].
//   - [AtLeast] keeps others out for a while, also after the release.
//   - [AtMost] ends a lease that is held for too long.
//   - [Weight] asks for several permits; [Lease.KeepPermits] gives back a part.
//   - [ReportDeath] tells the next holder whether the last one died: [Lease.Inherited].
//   - [BreakDeadlocks] fails one of those who wait for each other for ever, whom [Deadlocks] names.
//   - [Note] is shown with the lock: [Admin.Queue], [Admin.Queues], [Admin.Follow].
//
// # Operation
//
// [Client.Admin] is for tools: who holds and who waits, and since when; taking a lock away; the permits of a semaphore
// while it is in use; raising tokens; whether the backend can keep its promises. [Observe] and [Logger] tell what
// happens; package metrics shows it to Prometheus, and the module otelinterlock to OpenTelemetry.
//
// # Errors
//
// Test for them with errors.Is: [ErrBusy], somebody else holds the lock; [ErrUnavailable], the backend did
// not answer, so that this is not known; [ErrLost]; [ErrDeadlock]; [ErrMismatch]; [ErrInvalid]; [ErrClosed].
//
// # Names
//
// A name, with the client's [Prefix], is UTF-8 of 1 to 512 bytes. It consists of
// segments, which "/" joins: each has 1 to 200 bytes, and none is "." or "..". It has no
// braces, and no control, surrogate, private-use or non-character code points. All
// other characters may be in it, and upper and lower case differ. The rules are the same
// on every backend; a name that breaks them is [ErrInvalid]. One name is one kind of lock
// at a time, with one capacity: [ErrMismatch]. Values, latches and barriers have names of
// their own: a lock, a value, a latch and a barrier may have the same.
package interlock
