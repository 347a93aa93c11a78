package exchange

import (
	"context"
	"time"
)

// Detacher is a [Store] with rows of sessions: a heartbeat extends all tickets of its session that
// have no end of their own, and so those, too, that the caller has not named.
type Detacher interface {
	// Detach makes strays of tickets: each gets an end of its own, the one that it has when this
	// takes effect, unless it has one. Heartbeats call it for tickets that the caller did not
	// name: else the heartbeat would extend, for ever, tickets that no caller knows. It may wait for
	// their queues, and take an exchange for each.
	Detach(ctx context.Context, s Session, tickets []Ref) error

	// Attach is the opposite, for strays that the caller names again: they end with the session
	// again. A stray that has expired stays so: another client may have acted upon that. Evicted
	// and fixed tickets keep their ends.
	Attach(ctx context.Context, s Session, tickets []Ref) error

	// Tickets reads which tickets of the session stand, but for those with a fixed end. Heartbeats
	// call it when the history has changed: the new server may not know that a ticket has left.
	// A ticket that is missing in the answer would be extended for ever. It may be slow.
	Tickets(ctx context.Context, s Session) ([]Ref, error)
}

// Tidier is a [Store] with rows that do not go away by themselves.
type Tidier interface {
	// Tidy removes a bounded number of rows that have no use any more, and returns queues in which
	// tickets have expired, which the client settles. One heartbeat in a minute or so calls it. A
	// tombstone stays for its time, a result of Swap for driver.SwapMemory, and a queue for as long
	// as its last token, or that it was left uncleanly, says more than an empty row: else tokens
	// begin anew below a floor. It may take a few exchanges.
	Tidy(ctx context.Context) (queues []string, err error)
}

// Confirmer is a [Store] whose grants count only when a failover of the backend does not lose them.
type Confirmer interface {
	// Confirm waits until a failover cannot lose the grant. Join and Await call it before they return
	// a holder to the caller. If that takes too long, Confirm takes the ticket out as if it had
	// never been granted, and returns an error; the caller joins again. Undone says that this has
	// succeeded: the ticket does not stand, and has no tombstone. Inherited is that of the grant: the
	// queue stays as unclean as it was. Without Confirm two would hold after a failover. It may take
	// a few exchanges.
	Confirm(ctx context.Context, s Session, t Ref, inherited bool) (undone bool, err error)
}

// Counter is a [Store] whose methods take more or fewer exchanges than one.
type Counter interface {
	// Exchanges is driver.Driver.Exchanges. Without it the client counts calls.
	Exchanges() uint64
}

// Raiser is a [Store] that raises the tokens of all queues, also of those to come. The client has
// the others wait until their clock has passed the floor.
type Raiser interface {
	// RaiseAll is driver.Driver.Raise of all queues. It outlasts a crash of the backend: else later
	// tokens would be smaller than the floor.
	RaiseAll(ctx context.Context, floor uint64) error
}

// Resizer is a [Store] that can give a queue that has tickets another capacity.
type Resizer interface {
	// Resize is driver.Driver.Resize. The row of the queue keeps that it was resized, also while it
	// has no tickets, and a crash does not lose that: else two capacities would be in force, one after the
	// other. Waiters that can never fit are taken out as Ask does it (Removed), and the others are
	// granted. A Join that is repeated finds its ticket, whatever the capacity is by then. It may take a few exchanges.
	Resize(ctx context.Context, queue string, capacity int64) (unsettled bool, err error)
}

// Traited is a [Store] that says how it differs from others.
type Traited interface{ Traits() Traits }

// Traits are what the client needs to know of a store.
type Traits struct {
	// Bounded: each exchange ends soon after its context by itself, and a great many may be under
	// way at the same time, in one queue as well. So the client makes it in its caller's
	// goroutine, with the caller's context. Else the client bounds exchanges: see [Linger] and
	// [Limiter].
	Bounded bool

	// Prompt says whether a change most likely does not have to wait, as that of a holder. Its exchange is made in its
	// caller's goroutine: to wake another one, and to be woken by it, costs as much as all else that the client does.
	// nil: none is.
	Prompt func(Change) bool

	// Listens: the store listens from New to Close, and not only while a call waits. Then a Follow
	// that waits for another state is a follower from its first Read on.
	Listens bool

	// LookSettles: Look and Renew settle the queues of the tickets that they are asked about. So a
	// waiter whose expiry timer fires need not call Settle.
	LookSettles bool

	// WithSession: a ticket without an end of its own ends with its session, also if that is sooner
	// than one TTL after its Join. So only heartbeats prove it.
	WithSession bool

	// Together is how many changes one call of Change may have; 0: one, so that each is an exchange of its own. While an
	// exchange is under way the client batches more, for as long as that takes, or for Patience if that is less and not
	// 0: an exchange may be stuck that has to do with none of them.
	Together int
	Patience time.Duration

	// OnePerQueue: a call of Change has one change of each queue. The others, or a single one, go alone, each in its
	// caller's goroutine.
	OnePerQueue bool

	PerRenew int // how many tickets one call of Renew or Look may be asked about; 0: 1000
	Topics   int // how many topics are kept for the next call that follows or watches the same
}
