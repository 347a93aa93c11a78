// Package exchange is the client of a queue, written once: it implements package driver over a
// [Store], the exchanges of one backend. An exchange is one request to the backend and its reply.
//
// The client does what is the same for all backends: sessions, the identity of a Join whose
// reply was lost, the wait for a grant, heartbeats, signals, Follow and Watch. It keeps no state
// that decides. What a ticket is, the backend says; the client remembers what it was told, and
// from which local time on that is proven.
//
// # Glossary
//
//   - Row: what the backend keeps of a queue, a ticket, a session or a cell.
//   - Entry: what the client keeps of a ticket.
//   - Status: what an exchange says of the row of a ticket.
//   - Holder, waiter: a ticket that is held; a ticket that waits.
//   - End: the time from which a ticket, or a session, no longer stands. It expires at its end.
//   - Fixed: of a ticket whose end was set by Keep, or by Hold with its grant. No heartbeat moves it.
//   - Stray: a ticket that its session's caller does not name in Renew. Its end does not move.
//   - Heartbeat: a call of Renew.
//   - To settle a queue: to take out tickets that have expired, and to grant the next waiters. A
//     queue is unsettled while there is more to do.
//   - Over: of a session that was ended, or has expired.
//   - Tombstone: what a Leave puts where a ticket stood, or should have, against a late Join.
//   - Orphan: a ticket without an entry that may stand yet, or come. Heartbeats name it.
//   - Event: what the backend sends to a client without having been asked.
//   - Mailbox: where the events of one client are sent to.
//   - Follower: a client that is sent the next change of a queue or a cell, once. What it follows is
//     its topic.
//   - Tag: what the store wants its client to remember of a ticket, such as where its row is.
//   - Listener: the part of the client that receives events, and polls while it cannot.
//   - Expiry timer: has a waiter look at its queue when a ticket in front of it may expire,
//     since no event tells of a death.
//   - Resync: a look at all waiters of the client, after events may have been missed.
//   - History: which of several servers, which may replace one another, has answered.
//
// # How to write a Store
//
//  1. Choose the rows. A queue has its kind, its capacity, the units that are held, and two that
//     outlive its tickets: the last token, and whether the last exclusive holder left cleanly. A
//     ticket has its number in the queue, its units, its session and its own end, if it has one. A
//     session has its end, its TTL and its mailbox. Without rows of sessions, a ticket has an end
//     in any case, and the owner, TTL and mailbox of its session: there is less to write. If one row
//     has a queue with all its tickets, package rows has the exchanges. If no row says who holds, since that
//     follows from the keys that stand, package keys has the rule.
//  2. Write Begin, and Change by [Each] with Join and Leave of a [Changer], for one client. Then the tests of one lock pass.
//  3. Write Look and Renew. A crowd waits for them: neither may wait for the lock of a queue.
//  4. Write Settle, and have Join and Leave do the same: the first exchange after the end of a
//     dead holder grants the next waiters.
//  5. Write Listen, and send each [Event]. Until then Listen returns [errors.ErrUnsupported], and the
//     client polls.
//  6. Write what is seldom: Shrink, Keep, End, Ask, Raise.
//  7. Write Load, Swap, Read, List, Cells, Check and Explain.
//  8. Write the optional interfaces that the backend needs: [Detacher] if one end is that of all
//     tickets of a session, [Tidier] if rows do not go away by themselves, [Resizer] if permits can be changed. [Traited] says what else
//     differs: Traits.Together, if several changes can share a round trip or a commit.
//  9. Run drivertest and drivertest/primitives on [New] of it, against a real server.
//
// # What must hold
//
// Package exchangetest has a Store in memory that breaks one sentence of each of these, by the name
// that is given here, and of most methods, by their names. Its tests, and those of drivertest, show
// what goes wrong then.
//
//   - Atomic: an exchange takes effect as a whole or not at all.
//   - Alone: an exchange that changes tickets has locked the row of their queue before it reads
//     what it relies on. Several queues are locked in the order of their names, and a session
//     after its queues. A heartbeat, which waits for no queue, writes ends only: it moves an end in
//     the statement that finds it not passed, and whoever takes a ticket out for its end finds it
//     passed in the statement that takes it out. Else one would extend what the other removes.
//   - Prefix: a ticket is held if and only if the units of all tickets of its queue, up to and
//     including it, fit the capacity. No ticket passes a waiter.
//   - GrantInTheSameExchange: an exchange that frees units grants the next waiters too, or says
//     that the queue is unsettled.
//   - OneClock: all times are of the backend's clock. Requests and replies have durations only. A
//     client whose clock is behind would send ends that are too early, and lose what is proven.
//   - OneEnd: a session has one end, which Renew moves. A ticket has an end of its own if it is
//     fixed, evicted or a stray, and Renew does not move that. Else it ends with its session, but
//     not before one TTL after its Join, unless it is said that this can be sooner
//     (Traits.WithSession). A backend without rows of sessions has an end in the row of each ticket,
//     which Renew moves if it is to extend the ticket; then there is nothing to detach.
//   - NeverBack: an end that was promised stays. A heartbeat that is overtaken by a later one
//     does not move the session's end back.
//   - OverIsOver: an exchange that takes out a ticket because its session has expired marks the
//     session as over. Renew does not extend a session that is marked, or that has expired. Else
//     a client would be told that a ticket is kept while another client takes it out.
//   - OneTicket: a Join finds the ticket of its ID that stands, and makes no second, also without
//     Retry: the network may bring it twice. It says so (Status.Found): a Leave may be brought twice, too.
//   - Buried: a Leave that asks for a tombstone leaves one, whether the ticket stood or not. Until the
//     tombstone ends, a Join with this ID is refused, also if an earlier copy of it took effect.
//     Without rows of sessions, a ticket that expires leaves one for one TTL: no session that is
//     over refuses a late copy of its Join.
//   - TokensGrow: a later exclusive grant has a larger token, over restarts and empty queues. The
//     time since 1970 in units of 10 µs, or the last token plus one, whichever is larger, does that.
//   - Told: an exchange that grants, demands or removes sends the event of that to the mailbox of
//     the ticket's session. Removed is for tickets that Ask has taken out: to their holders it is an
//     eviction, which the end of a lease is not. The first waiter of a queue causes Wanted to be
//     sent to each holder; later waiters do not.
//   - NotBefore: no event is sent of what is not committed yet.
//   - OnlyOnce: a Swap that is repeated with its ID changes nothing more.
//
// An exchange may take effect after its caller has given up. The client repeats it meanwhile, so
// that it may come twice, the later one first. An event may be lost, late, doubled, or come before
// the reply of an exchange that was earlier.
package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Store is the exchanges with one backend. It waits for nothing but the backend, decides nothing
// from memory, and starts no goroutine that outlives a call, but in Listen.
//
// Each method is one exchange, unless it says otherwise. Methods may be called concurrently, and
// their arguments were checked. An error of package driver means what it means there; any other
// error leaves open whether the exchange took effect, and the client repeats it. A method
// whose context ends returns soon. Change and Renew return
// driver.ErrSession if their session is over, or has no row; a backend without rows of sessions
// does so only if it has proofs of life ([Begun].Liveness).
//
// Each call for a session is given what Begin was given: a backend without rows of sessions
// writes owner, TTL and mailbox into the row of each ticket. Each ticket is named with the tag
// that the last status of it had.
type Store interface {
	// Begin makes the row of a session, which ends one TTL from now unless it is renewed. Open
	// calls it once, and the first heartbeat may be sent up to one TTL after that: with an earlier
	// end the session would be over although it was renewed in time. Without a row, it makes sure
	// that the backend can be reached.
	Begin(ctx context.Context, s Session) (Begun, error)

	// End ends a session at once: none of its tickets stands any more but those with a fixed end.
	// Session.Close calls it, again if it fails. It returns the queues of the tickets that have ended. The
	// client settles these queues, since no event tells other clients of the ends. A session that is over is
	// not an error. Tickets are those that the client knows, waiters first; with rows of sessions they may be
	// ignored. A backend without has each of them leave, in this order, since a waiter would get what a
	// holder leaves. It grants the next waiters, and returns only queues that it has left unsettled: when End
	// is called again, since its reply was lost, the tickets do not stand any more.
	End(ctx context.Context, s Session, tickets []Leave) (queues []string, err error)

	// Change makes changes, and answers each as soon as it is known, in any order, before it returns: what that is
	// to do stands at [Changer]. Most lists have one change. Several are Leaves of waiters of one queue, or
	// came while another list was under way, Traits.Together at most; changes of the
	// same queue stay in their order. [Each] is enough for a Store that makes each change by itself.
	//
	// A change costs the others of its list nothing: one that is refused does not undo them, and one that would have to
	// wait, since its queue is locked or long, is not waited for. It is answered with [ErrAlone], has no effect, and
	// comes again as a list of one. If the reply is lost, each is answered with that error.
	Change(ctx context.Context, changes []Change, answer func(i int, a Answer))

	// Renew extends the session by one TTL from now, and then reads the status of tickets, in
	// their order. Each heartbeat calls it; so it waits for no queue, which another client may
	// have locked. The status is read after the session was extended: read before, a ticket could
	// be taken out in between, and the holder told that it is kept. If reading fails, it may
	// return what it has read so far. It may take a few exchanges.
	//
	// The caller has named the first of the tickets, as many as extend. Without rows of sessions
	// these are extended, and each of the others that stands is a stray, unless it is fixed. A part
	// of the tickets that could not be asked about is NotAsked, so that one dead node costs no lease of
	// another; it is an error if all of them are.
	Renew(ctx context.Context, s Session, tickets []Ref, extend int) (Renewal, error)

	// Look reads the status of tickets, in their order. A waiter calls it when its expiry timer
	// fires, and the listener for a resync. It waits for no queue. A ticket that has expired is
	// gone, also if its row is still there, and so is one of another session, unless it has a fixed
	// end: else Await would return what other clients do not respect.
	Look(ctx context.Context, s Session, tickets []Ref) ([]Status, error)

	// Settle settles a queue: it takes out and grants a bounded number of tickets, and says
	// whether the queue is still unsettled: without the bound, a dead crowd would lock the queue for
	// long. A store that settles each queue as a whole, whenever it looks at one, returns false
	// everywhere. Waiters call it when their expiry timer fires, and the client whenever an exchange has
	// said that a queue is unsettled. If it does nothing, the dead hold for ever.
	Settle(ctx context.Context, queue string) (unsettled bool, err error)

	// Ask is driver.Driver.Ask. The holder is sent the event of it. The row keeps it too, and Renew
	// and Look say so (Revoked, Evicted), since the event may be lost. A holder that is evicted gets
	// an end of its own: the one that it has, but not later than one TTL of its session from now. If it was joined with
	// Hold it keeps the one that it has.
	Ask(ctx context.Context, queue, id string, demand driver.Demand) (unsettled bool, err error)

	// Raise is driver.Driver.Raise for one queue, also for one that has no row. It outlasts a crash of
	// the backend: else later tokens would be smaller than the floor.
	Raise(ctx context.Context, queue string, floor uint64) error

	// Clock reads the time that tokens follow, in microseconds since 1970: a token is at least a
	// tenth of it. Driver.Raise of all queues calls it until that has passed the floor. A clock
	// that is ahead of the one that tokens follow would end that too soon: later tokens would be
	// smaller than the floor.
	Clock(ctx context.Context) (int64, error)

	// Read reads a queue, without the tickets that have expired. Follow calls it. If there is a
	// follower, the next change after this state is sent to it (QueueChanged), once. It may take two
	// exchanges then. The first notes the follower: else a change in between would be missed. The
	// client sets Queue.Read, and Version unless the store has set it.
	Read(ctx context.Context, queue string, f Follower) (Snapshot, error)

	// List reads queues that have tickets, and whose names begin with prefix, in the order of their bytes
	// (not of a collation: pages would overlap): a bounded number. The first call is from "", and each
	// further one from where the one before says; next is "" if there are no more. What it says is the
	// Store's own: the name to go on after, say. A page that is full is not the last because of that: if next
	// is "" too soon, inspection shows a part of the queues as if it were all.
	List(ctx context.Context, prefix, from string) (queues []Snapshot, next string, err error)

	// Cells is List for the names of cells that exist. If a page begins before the one before it has
	// ended, names are listed twice, and the list may never end.
	Cells(ctx context.Context, prefix, from string) (names []string, next string, err error)

	// Load reads a cell. Driver.Load calls it without a follower, and Watch with one, which is sent
	// the next change after this version (CellChanged): it is noted before the cell is read, as by Read.
	// Of a value that is longer than driver.MaxCell, which none of this library has written, it may return a part
	// that is longer still: then the call fails, and says so.
	Load(ctx context.Context, name string, f Follower) (driver.Cell, error)

	// Swap is driver.Driver.Swap. Its result, also a conflict, is kept with its ID for
	// driver.SwapMemory: the caller repeats a Swap whose reply was lost, and would be told of a conflict
	// with itself. Both outlast a crash of the backend.
	Swap(ctx context.Context, s driver.Swap) (driver.Cell, error)

	// Listen receives the events that are sent to a mailbox, until ctx ends or the connection is lost, which
	// is an error, also if the peer is gone without a word. The listener calls it while a call waits, or a
	// ticket has been held for a moment, and again when it fails. It calls up once, as soon as no event that
	// is sent from then on can be missed: the client makes a resync then, and polls no more. If up is called
	// sooner, a waiter that is granted in between is told by its next heartbeat only. Receive does not block.
	// If the backend sends no events at all, the error wraps errors.ErrUnsupported, and the client polls.
	// What is sent while the client does not listen may be lost.
	Listen(ctx context.Context, mailbox string, up func(), receive func(Event)) error

	// Check is driver.Driver.Check. What could not be asked is not OK: else a backend that does not
	// answer would pass.
	Check(ctx context.Context) []driver.Finding

	// Explain says what an error of a connection means for the author of the URL, and marks it
	// with driver.Permanent if it will be the same next time. The client asks it about every error
	// that is not of package driver. A permanent error ends Await, Follow and Watch; so an error
	// that passes must not be marked.
	Explain(err error) error

	// Close frees what the store holds. Driver.Close calls it once, when the contexts of all exchanges
	// have ended; those of a store that is Bounded have not, and Close ends these exchanges too. What it
	// leaves, such as connections, stays until the process ends.
	Close()
}
