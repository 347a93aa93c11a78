// Package driver is what a backend of Interlock implements. Its comments are
// the specification; package drivertest checks each sentence of it.
//
// # Queues and tickets
//
// A queue has a name, a kind and a capacity. A ticket is a place in a queue
// and asks for some units of its capacity. One rule carries every lock:
//
//	A ticket is held if and only if the units of all tickets of its queue,
//	up to and including it, fit the capacity.
//
// A mutex is a queue of capacity 1 with tickets of 1 unit; a semaphore of n
// has capacity n; a read-write lock has [RWCapacity], of which a reader takes
// 1 and a writer all. Release, cancellation, expiry and eviction are one verb:
// leave the queue. Grants are strictly first come, first served, and a ticket
// that is held stays held until it leaves.
//
// # Sessions
//
// A ticket belongs to the session that joined it and stands as long as that
// session renews it ([Session.Renew]). A ticket that has not been renewed for
// the session's TTL leaves by itself, held or waiting. The exception is a held
// ticket with a fixed end ([Request].Hold, [Session.Keep]): it ends at that
// time, whatever its session does.
//
// # Cells
//
// A cell is a versioned value of at most [MaxCell] bytes, with
// compare-and-swap and watch. Queues and cells have separate name spaces. Names
// of queues satisfy [CheckName], those of cells [CheckCell]. The last segment of
// a cell's name says what it is for: barrier, latch, leader, round (see [Round]) or value.
//
// # Calls
//
// Every method is a bounded number of exchanges with the backend and waits for
// no other client, except Await, Signals, Watch and Follow, which wait until
// their context ends. An error that passes, such as a lost connection, ends none
// of these four. Drivers do not retry, except inside them: the caller does, once,
// for all of them. A method whose context has ended returns an error that wraps
// the context's. All methods may be called concurrently.
//
// What a client is sent without having asked is no more than a reason to ask,
// unless it proves that its sender may change the ticket.
//
// # Hostile surroundings
//
// Who has no rights at the backend changes no ticket, no token and no cell. What stands in the records of
// one queue, whoever has written it there, harms no other queue. A client that stops in the middle of a
// change of a queue costs no ticket of another queue, and hides none. What another user puts in the place of a file
// or a folder is not followed out of the place of the locks. Whatever answers in the
// place of the backend, every call ends with its context, and no answer takes memory without bound. A host that
// takes connections and says nothing is given up without the end of a context.
//
// What was to come over a connection that is silent, though nobody has ended it, comes within two TTLs of the
// session. A client that gets no answers, although its requests arrive, keeps a ticket for no longer than one
// TTL after its last proof has ended. An exchange that the network brings twice takes effect once.
//
// # Arguments and errors
//
// Arguments are checked once, above all drivers, by [Checked]: a driver relies on what is said
// of them here.
//
// An error that is none of the package's sentinels leaves open whether the
// call took effect; the caller repeats it with the same identity. An error
// marked by [Permanent] will be the same next time and is not repeated.
package driver

import (
	"context"
	"iter"
	"os"
	"time"
)

// RWCapacity is the capacity of a read-write lock and of a double barrier, the
// same on every backend.
const RWCapacity = 1 << 30

// MaxCapacity is the largest capacity: some backends count with floating point
// numbers, which are exact up to here.
const MaxCapacity = 1<<53 - 1

// MaxCell is the largest value of a cell, in bytes.
const MaxCell = 64 << 10

// MaxToken is the first number that is too large for a [Ticket].Token: twelve
// more bits are added for grants within one process, and the sum fits a signed
// 64-bit integer.
const MaxToken = 1 << 51

// SwapMemory is how long, at least, a backend recognises a [Swap] that is
// repeated with the same ID.
const SwapMemory = time.Minute

// Driver is one backend, opened by one client.
type Driver interface {
	// Open starts a session. It fails at once, with the reason, if the backend
	// cannot be reached. A TTL that is not positive: ErrInvalid.
	Open(ctx context.Context, o SessionOptions) (*Opened, error)

	// Now reads the steady clock that all proofs of this driver are in: the
	// function [Now], unless the driver lives in simulated time.
	Now() Instant

	// Load reads a cell. A cell that was never set has version 0.
	Load(ctx context.Context, name string) (Cell, error)

	// Swap sets or deletes a cell whose version is still s.Version, and returns
	// the cell as it is then, with a larger version. Otherwise it changes nothing
	// and returns ErrConflict. Repeated with the same ID within SwapMemory it
	// changes nothing more and returns the first result. A deleted cell keeps its
	// version, so that a version never comes back. A value of more than MaxCell
	// bytes is refused with ErrTooLarge.
	Swap(ctx context.Context, s Swap) (Cell, error)

	// Watch returns the cell as soon as its version differs from after, at once
	// if it already does. It may skip versions, but never misses the last.
	Watch(ctx context.Context, name string, after uint64) (Cell, error)

	// Follow returns the queue as soon as it differs from the state with version
	// after, at once if it already does; "" differs from every state. It may skip
	// states, but never misses the last. States differ if their members do, or the
	// units, grants or fixed ends of these; a renewal makes no other state. A queue
	// without tickets is empty, not an error.
	Follow(ctx context.Context, queue, after string) (Queue, error)

	// Queues lists the queues that have at least one ticket and whose names begin
	// with prefix, in the order of their names. What cannot be read is left out, and
	// an error, which comes last, says so.
	Queues(ctx context.Context, prefix string) iter.Seq2[Queue, error]

	// Cells lists the names of the cells that exist and whose names begin with prefix, in
	// the order of the names. Those of another library and rounds may be left out.
	Cells(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Ask sends Revoke or Evict to the ticket, or removes it at once (Force). An
	// evicted ticket that is held is not renewed any more: it leaves when its
	// session leaves it, or when its TTL has run out, whichever comes first. One
	// that was joined with Hold keeps its end, which its holder may rely on without a renewal. An evicted ticket that
	// waits leaves at once. A ticket that does not stand: ErrGone. Tickets of another
	// library have IDs of another form, which every driver takes.
	Ask(ctx context.Context, queue, id string, what Demand) error

	// Raise makes every later token of the queue larger than floor. An empty name
	// stands for all queues, also those to come: tickets that join later get larger
	// tokens. Where tokens follow a clock that is behind such a floor: ErrInvalid.
	Raise(ctx context.Context, queue string, floor uint64) error

	// Resize gives a semaphore's queue a capacity and keeps it, over crashes and restarts: the queue does not
	// forget it when it is empty, and a Join of another capacity is ErrMismatch then, too. Whoever now fits
	// is granted. A ticket that is held stays held when the capacity is lowered, also beyond it, and no other
	// is granted until it fits. Another capacity is another state for Follow. A ticket that waits for more
	// units than the capacity leaves at once, as one that is evicted. Capacity 0 undoes that: a queue that
	// has tickets has the same capacity, and forgets it when it is empty. A queue of another kind that has
	// tickets: ErrMismatch. A backend whose tickets cannot be given another capacity:
	// [errors.ErrUnsupported].
	Resize(ctx context.Context, queue string, capacity int64) error

	// Check examines whether the backend can be reached and is configured so that
	// its promises hold. It reports what it found out even when something failed.
	Check(ctx context.Context) []Finding

	// Exchanges counts the exchanges with the backend so far, heartbeats included:
	// a round trip to a server, a transaction on a file.
	Exchanges() uint64

	// Close ends every call under way and frees what the driver holds. Sessions
	// that were not closed end as if their process had died. Closing it again does
	// nothing and returns nil.
	Close() error
}

// Session is a client's standing with a backend; its tickets die with it. Once
// a session is over every method returns ErrSession.
type Session interface {
	// Join puts a ticket at the end of a queue and reports whether it is held.
	// Repeated with the same ID it finds its own ticket, held or waiting, and
	// never makes a second, and of what else the request says only NoWait counts: the
	// ticket stays as it was joined. The request must have Retry set if the ID may have
	// been sent before. Held by others and NoWait: ErrBusy, and no ticket stands; it may
	// count as left, and with Retry it does, since a Join sent before may yet arrive; a
	// NoWait ticket that is already in the queue is reported if held and leaves otherwise. A ticket
	// that has left, or that was left before this Join arrived: ErrGone, for at least
	// one TTL. A queue that has tickets of another kind or capacity, or an ID whose
	// ticket of this session stands in another queue: ErrMismatch.
	Join(ctx context.Context, r Request) (Ticket, error)

	// Await returns once the ticket is held. A ticket that does not stand (any
	// more): ErrGone. Returning for another reason, such as the end of ctx, does
	// not leave the queue. While it waits it causes no exchanges but those of
	// Renew and of its own grant. Each session in front of it that dies causes a
	// few more, once.
	Await(ctx context.Context, t Ticket) (Ticket, error)

	// Shrink reduces a ticket to fewer units, at least 1, without giving up its
	// place, and grants whoever now fits. Asking for as many or more changes
	// nothing. A ticket that does not stand: ErrGone.
	Shrink(ctx context.Context, t Ticket, units int64) error

	// Keep makes a held ticket end d from now, sooner or later than it would have,
	// and whatever its session does. It also serves tickets of other sessions, by
	// their ID, if they have a fixed end already. A ticket that was joined without
	// Hold ends cleanly then: its holder is done and only keeps others out. A time
	// that is not positive: ErrInvalid. A ticket that waits: ErrInvalid. An evicted ticket
	// that would stand for longer than without this, or a ticket that does not stand: ErrGone.
	Keep(ctx context.Context, t Ticket, d time.Duration) error

	// Leave takes the ticket out of its queue and grants whoever is next in the
	// same exchange. Not clean means that the work under an exclusive ticket may
	// be half done: the next one is told so (Inherited). It also serves tickets
	// of other sessions, by their ID, if they have a fixed end. A ticket that does
	// not stand: ErrGone, and a Join with this ID that arrives within one TTL is
	// refused.
	Leave(ctx context.Context, t Ticket, clean bool) error

	// Renew extends the tickets that the caller knows of, and no others, by one
	// TTL, all in one exchange or in a few, and says of each what became of it. A
	// ticket of this session that is not in known is not extended, and is
	// reported as Stray (a call that would have to wait for long for that extends it
	// once more, rather than hold up what it names); once a later call names it, it is
	// extended again (a Join and a Renew can cross). A ticket with a fixed end is not
	// extended and never Stray: it needs nobody to renew it; but any session that names
	// it is told what became of it. A known ticket that is not in the answer could not be
	// asked about. Renew also repairs whatever a lost message left undone: a
	// grant that Await was not told of, a signal that was not delivered. Proofs are
	// recent while the backend answers: none is older than half of the TTL when the
	// next call is due, if a call is due a third of the TTL after the last one, or as
	// soon as the proof is two fifths of the TTL old, but no sooner than a twelfth of
	// the TTL after the last one. ErrSession means that all tickets without a fixed end are gone.
	Renew(ctx context.Context, known []Ticket) ([]Renewed, error)

	// Signals returns the next signal. Each is delivered at least once, at the
	// latest with the next Renew. What Ask sends to a ticket that is held is delivered without one, soon: Revoke,
	// or Evict, also for one that is taken away. One can come before the answer of its ticket's Join.
	Signals(ctx context.Context) (Signal, error)

	// Close ends the session at once. Its waiting tickets leave; its held tickets
	// leave uncleanly, except those with a fixed end, which stay. A grant that no
	// call on the session has returned yet may count as waiting: nobody uses it. To
	// close it again is ErrSession, too.
	Close(ctx context.Context) error
}

// Opened is a session, and what the backend says of it once.
type Opened struct {
	Session
	ID     string        // it is unlike that of any other session, ever
	TTL    time.Duration // what the backend granted, not what was asked for
	Paused Instant       // nobody is granted anything before, since the backend has lost tickets that may be held; 0: it grants

	// Liveness is the open files whose last close, in whatever process, is this
	// session's death; a child that inherits them keeps the session from ending early.
	// Most backends have none.
	Liveness []*os.File
}

// SessionOptions are what a client asks of its session.
type SessionOptions struct {
	TTL   time.Duration // a wish: see Opened.TTL
	Owner string        // shown by inspection; host:pid by default
}

// Kind says what a queue is used as. It is part of the queue's identity and
// may choose a layout that is shared with other programs, never the rule.
type Kind string

const (
	Mutex     Kind = "mutex"
	RWMutex   Kind = "rwmutex"
	Semaphore Kind = "semaphore"
	Election  Kind = "election"
	Barrier   Kind = "barrier"
)

// Request asks for a ticket.
type Request struct {
	ID              string // chosen at random by the caller; satisfies [CheckID]
	Queue           string
	Kind            Kind
	Units, Capacity int64         // 1 <= Units <= Capacity <= MaxCapacity
	NoWait          bool          // ErrBusy instead of standing in line
	Hold            time.Duration // 0: as long as it is renewed; else it ends this long after the grant
	ReportDeath     bool          // Ticket.Inherited is wanted
	Retry           bool          // this ID may have been sent before: look for it
	Note            []byte        // who and why, a candidate's value; shown by inspection
}

// Ticket is a place in a queue.
type Ticket struct {
	ID, Queue string
	Held      bool

	// Token numbers the grant, 0 < Token < MaxToken; 0 while waiting. A later
	// exclusive grant of the same queue (one whose units are the whole capacity)
	// has a larger token, over crashes and restarts, and over the queue having
	// been empty in between.
	Token uint64

	// Inherited says that the last exclusive holder of the queue died or did not
	// leave cleanly. With Request.ReportDeath it is certain for a ticket that waited
	// when that happened; else it may be wrong to the safe side. Without ReportDeath it
	// may be missing. An exclusive holder is one beside which no other holds, and whose
	// units are the whole capacity, or more if that was lowered, when it leaves.
	Inherited bool

	// Proof is the local time from which the backend guarantees a held ticket for
	// the session's TTL, or for its Hold: no other ticket takes its place before.
	Proof Instant
}

// State is what Renew found out about a ticket.
type State uint8

const (
	Kept    State = iota // stands, and is extended
	Gone                 // does not stand any more
	Evicted              // stands, but is not extended any more
	Stray                // stands, but the caller did not name it
	Unasked              // could not be asked about, as one that is not in the answer: see Renewed.Why
)

// Renewed is the answer of Renew for one ticket.
type Renewed struct {
	ID, Queue string
	State     State
	Proof     Instant // of a Kept ticket: as Ticket.Proof
	Why       error   // of an Unasked ticket: who has not answered
}

// Demand is something that a ticket's holder is asked for.
type Demand uint8

const (
	Wanted Demand = iota + 1 // another ticket waits behind this held one; not for Ask
	Revoke                   // please give it up
	Evict                    // it is not renewed any more
	Force                    // it is taken away at once: unsafe; for Ask only
	Doubt                    // the connection is in doubt, all tickets are concerned; not for Ask
)

// Signal is a demand for one ticket, or for all (Doubt).
type Signal struct {
	Demand    Demand
	Queue, ID string
}

// Cell is a versioned value.
type Cell struct {
	Version uint64 // 0: never set; grows with every change
	Exists  bool
	Value   []byte
}

// Swap changes a cell.
type Swap struct {
	ID      string // chosen at random by the caller; satisfies [CheckID]
	Name    string
	Version uint64 // the version to replace; 0 creates a cell that was never set
	Value   []byte
	Delete  bool // the cell does not exist afterwards; Value is ignored
}

// Queue is a snapshot of a queue, its members in the order of Join.
type Queue struct {
	Name     string
	Version  string // for Follow; never ""
	Kind     Kind
	Capacity int64
	Resized  bool // Capacity is that of Resize, which is kept
	Members  []Member
	Read     Instant // the local time before it was read
}

// Member is a ticket as inspection shows it.
type Member struct {
	ID    string
	Owner string
	Note  []byte
	Units int64
	Held  bool
	Token uint64        // 0 while waiting
	Since time.Time     // of the Join, by the backend's clock
	Left  time.Duration // from Queue.Read: how long it stands if nothing renews it
	Fixed bool          // it has a fixed end, which Left counts to
	At    string        // of a quorum: the members that keep a place for it although it is not held

	// Foreign: it is of another library. Left is 0, for how long it stands is not known,
	// and while it is held, Evict asks only, as Revoke does.
	Foreign bool
}

// Finding is one result of Check.
type Finding struct {
	Check   string `json:"check"` // what was looked at
	Status  Status `json:"status"`
	Detail  string `json:"detail"`            // what was found
	Promise string `json:"promise,omitempty"` // the promise that this affects; "" if OK
	Remedy  string `json:"remedy,omitempty"`  // what to do; "" if OK
}

// Status grades a finding.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)
