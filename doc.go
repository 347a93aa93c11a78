// Package interlock is distributed locks: mutexes, read-write locks,
// semaphores, elections, barriers, latches and small shared values, for the
// goroutines of one process (memory), the processes of one machine (a SQLite
// file), or all machines that reach one server (Redis, ZooKeeper, PostgreSQL,
// MySQL, MariaDB).
//
//	c, err := interlock.Open(ctx, "sqlite:locks.db")
//	err = c.Mutex("report").Do(ctx, func(ctx context.Context) error { … })
//
// The backend is imported for its effect, as with database/sql:
//
//	import _ "github.com/interlock-go/interlock/backend/sqlitelock"
//
// # Leases
//
// Whoever acquires a [Lock] holds a [Lease]. It lasts as long as the client
// renews it, which it does by itself: one heartbeat, every third of the [TTL],
// serves all leases of a client. When the process dies, its leases end with the
// TTL, or sooner where the backend notices, and the next waiter is served.
// Waiters of all processes are served first come, first served.
//
// # Loss
//
// A lease can be lost: the backend cannot be reached, the process was stopped
// for too long, somebody evicts it. The client judges that by its own clock,
// before the backend can give the lock to another. The context that
// [Lock.Do] hands to its function, and that of [Lease.Bind], then ends, with a
// cause that wraps [ErrLost]. Work that follows its context is over when the
// next holder starts; work that does not is two holders' work. From the first
// failed renewal to the loss, [Lease.InDoubt] tells careful work to pause.
//
// # Fencing
//
// No lock can stop a write that is on its way already when the lease is lost.
// [Lease.Token] is a number that grows with every exclusive grant: a resource
// that remembers the largest that it has seen, and refuses smaller ones, is safe
// from late writes (see package fence).
//
// # Who is the holder
//
// The context is. Goroutines that are given the context of Do or Bind hold the
// lock together; with it, [LeaseFrom] finds the lease, and acquiring the lock
// again is [ErrDeadlock], or counts up if the lock is [Reentrant]. A context
// from elsewhere holds nothing, nor does one from [Detach].
//
// # Within one process
//
// Goroutines that want the same mutex, or the same side of a read-write lock,
// hand it on among themselves without asking the backend, each with a larger
// token: for a bounded number of times, and a bounded time, while others wait.
// [StrictOrder] switches that off, [Sticky] keeps the lock for the next of them.
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
//
// # Options
//
// Options go to the constructor or to [Lock.With]: [Wait] bounds the wait,
// [Hold] acquires for a fixed time, which anybody who knows the lease's ID can
// extend or end ([Client.Adopt]), [AtLeast] keeps others out for a while,
// [Weight] asks for several permits, of which [Lease.Shrink] gives back a part, [Robust] tells whether the last holder
// died, [Note] is shown by inspection ([Client.Queue], [Client.Queues],
// [Client.Follow]).
//
// # Several locks
//
// [All] makes one lock of several, over any mix of kinds and backends, which is acquired as a whole or not at all.
package interlock
