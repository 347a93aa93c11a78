package exchange

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Store is the exchanges with one database. Each method is one short transaction,
// unless it says otherwise, and may be called concurrently. Its arguments were
// checked. It returns the sentinel errors of package driver for what they mean;
// after any other error nobody knows whether the transaction was committed. A
// transaction that is committed after its caller has given up does no harm: tickets
// and swaps have IDs.
type Store interface {
	// Begin makes a session, which ends one TTL from now unless it is renewed. The history
	// is that of Renewed.
	Begin(ctx context.Context, s Session) (history string, err error)

	// End ends a session at once: its tickets without a fixed end do not stand any
	// more. It returns the queues in which somebody may wait for that, to be settled.
	// A session that is over already is no error.
	End(ctx context.Context, session string) (queues []string, err error)

	// Join puts a ticket at the end of its queue, or finds it if it stands already
	// and j.Retry is set. What has ended in its way is taken out first. It returns
	// driver.ErrBusy, ErrGone, ErrMismatch and ErrSession as driver.Session.Join does,
	// but that a ticket found with NoWait that waits is returned as it is.
	Join(ctx context.Context, j Join) (Standing, error)

	// Leave takes a ticket out and grants whoever is next. A ticket that does not
	// stand: driver.ErrGone, and with l.Refuse above zero a Join with this ID that
	// commits later, within that time, is refused.
	Leave(ctx context.Context, l Leave) (Left, error)

	// Withdraw is Leave for some tickets of one queue that wait, or waited a moment ago,
	// which have the given IDs and are of the session. It says which of them do not stand.
	Withdraw(ctx context.Context, session, queue string, ids []string, clean bool) (gone []bool, left Left, err error)

	// Shrink reduces a ticket of the session to fewer units, if they are fewer.
	Shrink(ctx context.Context, session string, t Ref, units int64) (Left, error)

	// Keep gives a held ticket of the session, or one with a fixed end of another,
	// a fixed end d from now. The owner is shown if its session goes. A ticket that
	// waits: ErrNotHeld. One that is evicted and would end later than it does:
	// driver.ErrGone.
	Keep(ctx context.Context, session, owner string, t Ref, d time.Duration) error

	// Renew extends the session, and reads after that what has become of tickets, in their
	// order; only of the first ones if that fails for the others. It waits for no queue. It
	// returns driver.ErrSession if the session is over. It may take a few transactions.
	Renew(ctx context.Context, session string, look []Ref) (Renewed, error)

	// Strand gives tickets of the session an end of their own, the one that they have
	// when the transaction is committed, unless they have one; those in again lose it,
	// unless it has passed. It may take a transaction for each.
	Strand(ctx context.Context, session string, strays, again []Ref) error

	// Look reads what has become of tickets, in their order. One of another session
	// stands only if it has a fixed end.
	Look(ctx context.Context, session string, tickets []Ref) (Renewed, error)

	// Tickets reads which tickets of the session there are, but for those with a fixed end.
	// It may read all queues: it is asked for when another history goes on.
	Tickets(ctx context.Context, session string) ([]Ref, error)

	// Settle takes out the tickets of a queue that have ended, and grants whoever
	// is next, a bounded number of both. More says that there may be more to do.
	Settle(ctx context.Context, queue string) (more bool, err error)

	// Ask is driver.Driver.Ask.
	Ask(ctx context.Context, queue, id string, what driver.Demand) (Left, error)

	// Raise is driver.Driver.Raise. It outlasts a crash of the database.
	Raise(ctx context.Context, queue string, floor uint64) error

	// Clock reads the time that tokens follow, in microseconds since 1970.
	Clock(ctx context.Context) (int64, error)

	// Read reads a queue without the tickets that have ended. If channel is not
	// empty, the client that listens there is told of the next change after that
	// state. Version and Queue.Read are left to the caller.
	Read(ctx context.Context, queue, channel string) (Reading, error)

	// List reads queues that have tickets and whose names begin with prefix and are
	// larger than after, in the order of their bytes: a bounded number. It returns
	// the name to go on after; "" if there are no more.
	List(ctx context.Context, prefix, after string) (queues []Reading, next string, err error)

	// Cells reads the names of cells that exist, begin with prefix and are larger than
	// after, in the order of their bytes: a bounded number. None: there are no more.
	Cells(ctx context.Context, prefix, after string) ([]string, error)

	// Load reads a cell. If channel is not empty, the client that listens there is
	// told of the next change after that version.
	Load(ctx context.Context, name, channel string) (driver.Cell, error)

	// Swap is driver.Driver.Swap. It outlasts a crash of the database.
	Swap(ctx context.Context, s driver.Swap) (driver.Cell, error)

	// Tidy removes a bounded number of rows that nobody needs any more, and returns
	// queues in which tickets have ended, to be settled. It may take a few
	// transactions.
	Tidy(ctx context.Context) (queues []string, err error)

	// Listen brings what is sent to a channel, until ctx ends or the connection is
	// lost, which is an error. It calls up once, when nothing that is sent from then
	// on can be missed; hear must not block. If the database cannot be listened to
	// at all, the error wraps errors.ErrUnsupported, and waiters look again and
	// again.
	Listen(ctx context.Context, channel string, up func(), hear func(Event)) error

	// Check is driver.Driver.Check.
	Check(ctx context.Context) []driver.Finding

	// Explain says what an error of a connection means for whoever wrote the URL,
	// and marks it if it will be the same next time. It is asked about every error
	// that is none of package driver.
	Explain(err error) error

	// Close ends calls under way and frees what the store holds.
	Close()
}

// Session is a row of a session.
type Session struct {
	ID      string // 32 hexadecimal digits
	TTL     time.Duration
	Owner   string
	Channel string // where its client listens, while it waits for something
}

// Ref names a ticket.
type Ref struct{ Queue, ID string }

// Join asks for a ticket.
type Join struct {
	driver.Request
	Session string
	Owner   string // shown for a ticket with a fixed end, which may outlive the session
}

// Leave takes a ticket out of its queue.
type Leave struct {
	Ref
	Session string
	Clean   bool
	Waited  bool          // it was not granted by its Join: then others were there
	Refuse  time.Duration // for how long a Join with this ID is refused if the ticket does not stand
}

// Left is what an exchange has left undone.
type Left struct {
	More bool // there are more tickets to be granted: the queue is to be settled
}

// State is whether a ticket is held.
type State uint8

// The states.
const (
	Gone State = iota
	Waits
	Held
)

// Standing is what the database says of a ticket.
type Standing struct {
	State     State
	Token     uint64 // of a held one
	Inherited bool   // of a held one
	Wanted    bool   // a held one, behind which another waits
	Revoked   bool
	Evicted   bool
	Stray     bool
	Fixed     bool
	Left      time.Duration // until its end, if that is its own: Fixed, Evicted or Stray
	Hold      time.Duration // the length of the fixed time that ends then
	Again     time.Duration // of one that waits near the front: when something that holds ends; 0: not known
	Ahead     int           // how many wait in front of it, if Again is known
	More      bool          // the queue is to be settled: one that holds has ended, or the first in line fits
}

// Renewed is what has become of tickets, in the order of the question.
type Renewed struct {
	Standings []Standing

	// History is what the data of this server go back to. It changes when a replica takes
	// over, which may not have received the last changes. Empty: the server does not say.
	History string
}

// Reading is a queue as it was at a time of the server's clock.
type Reading struct {
	driver.Queue
	At time.Time
}

// Event is something that the database has sent without being asked.
type Event struct {
	What   What
	ID     string        // of the ticket
	Ticket Standing      // Granted: its state; WaitsFirst: Again
	Ask    driver.Demand // Asked
	Queue  string        // QueueChanged
	Cell   string        // CellChanged

	// Doubtful: it may have been sent by somebody who has no right to change tickets. It is a
	// reason to ask.
	Doubtful bool
}

// What is a kind of event.
type What uint8

// The kinds. A database that can only ring sends Bell: then whatever waits looks.
const (
	Bell         What = iota
	Granted           // the ticket is held
	WaitsFirst        // the ticket is the first in line now: look again then
	Asked             // a demand for the ticket
	Removed           // the ticket is gone
	QueueChanged      // a queue that is followed has changed
	CellChanged       // a cell that is watched has changed
)
