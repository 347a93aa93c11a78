package exchange

import (
	"os"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Session is the row of a session.
type Session struct {
	ID      string // 32 hexadecimal digits, at random
	TTL     time.Duration
	Owner   string
	Mailbox string
}

// Ref names a ticket.
type Ref struct {
	Queue, ID string

	// Tag is that of the last status of the ticket, whose meaning is the store's own: where to find the ticket, say, or
	// that its client knows that it is held. It can be old: the ticket has changed since, or another one has its ID.
	// 0 after a Shrink or a Keep.
	Tag uint64
}

// Join asks for a ticket.
type Join struct {
	driver.Request
	Session Session // its owner is shown for a ticket with a fixed end, which may outlive the session

	// Number is of the ticket, at random, above 0 and below 1<<53, so that a float64 has room for it.
	// An event may name the ticket by it instead of its ID.
	Number uint64
}

// Follower is who is sent the next change of a queue or a cell. The zero value is none.
type Follower struct {
	Mailbox string
	Topic   uint64 // the client's number for the queue or the cell, by which an event may name it
}

// Leave takes a ticket out of its queue.
type Leave struct {
	Ref
	Session   Session
	Clean     bool
	Waited    bool          // it was a waiter: then there were other tickets in its queue
	Withdraws bool          // it is one that gives up, and needs no tombstone
	Tombstone time.Duration // for how long a Join with its ID is refused; 0: not
	Unfixed   bool          // of a holder that End names: with a fixed end, which the client may not know, it stays
}

// Shrink reduces a ticket to fewer units.
type Shrink struct {
	Ref
	Session Session
	Units   int64
}

// Keep gives a ticket a fixed end.
type Keep struct {
	Ref
	Session Session // its owner is shown for the ticket
	For     time.Duration
}

// State is whether a ticket is held.
type State uint8

// The states.
const (
	Gone State = iota
	Waiting
	Held
	NotAsked // it could not be asked about
)

// Status is what the backend says of a ticket.
//
// A holder has inherited if the last exclusive holder of its queue did not leave cleanly: it has
// expired, was removed, ended with its session, or left so. A Shrink to fewer units than the
// capacity is clean, and so is a fixed end of a ticket that was joined without Hold.
type Status struct {
	State     State
	Token     uint64 // of a holder
	Inherited bool   // of a holder
	Wanted    bool   // of a holder: a waiter is behind it
	Revoked   bool
	Evicted   bool // of one that is Gone: Ask has taken it out; a store with rows of sessions need not say so
	Stray     bool
	Fixed     bool
	Left      time.Duration // until its own end, if it has one: Fixed, Evicted or Stray
	Hold      time.Duration // of a fixed ticket: how long the fixed time is that ends then
	Due       time.Duration // of a waiter near the front: until it, or a ticket in front of it, may expire; 0: no expiry timer
	Ahead     int           // of a waiter with an expiry timer: how many waiters are in front of it
	Unsettled bool          // its queue: a holder has expired, or the first waiter fits
	Found     bool          // of a Join: it stood before, since an earlier one or a copy of this one has come
	Blocked   bool          // of the first waiter: a program that sends no events keeps it out; the client polls

	Tag uint64 // of the ticket: see Ref

	// At is the backend's time when the exchange took effect; of the event of a grant, when the
	// ticket was granted. The client uses it for tickets that get a fixed end with the grant. The
	// zero time: not known, and then it asks after the event.
	At time.Time

	// Sent is the local time at which the exchange was sent that has found or made this, and has
	// extended the ticket unless it has an end of its own. A store may say it if a call is several
	// exchanges, or if an earlier one proves what was found. 0: when the call began.
	Sent driver.Instant
}

// Begun is what Begin says of a session.
type Begun struct {
	History  string        // see Renewal
	TTL      time.Duration // what the row has, and every later call is given; 0: what was asked for
	Liveness []*os.File    // see driver.Opened

	// Paused is for how long the backend grants nothing, since it has lost rows in a crash: all sessions of before are
	// over then. If it is not said, waiters are told that others hold the lock.
	Paused time.Duration
}

// Renewal is what Renew returns.
type Renewal struct {
	Tickets []Status // in the order of the question; fewer if the rest could not be read

	// History is what the data of the server that has answered go back to. It changes when a
	// replica takes over, which may not have received the last changes. Empty: not known.
	History string
}

// Snapshot is a queue as it was at a time of the backend's clock.
type Snapshot struct {
	driver.Queue
	At time.Time
}
