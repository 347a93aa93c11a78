package exchange

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Session is the row of a session.
type Session struct {
	ID      string // 32 hexadecimal digits
	TTL     time.Duration
	Owner   string
	Mailbox string
}

// Ref names a ticket.
type Ref struct{ Queue, ID string }

// Join asks for a ticket.
type Join struct {
	driver.Request
	Session string
	Owner   string // shown for a ticket with a fixed end, which may outlive its session
}

// Leave takes a ticket out of its queue.
type Leave struct {
	Ref
	Session   string
	Clean     bool
	Waited    bool          // it was a waiter: then there were other tickets in its queue
	Tombstone time.Duration // for how long a Join with its ID is refused; 0: not
}

// State is whether a ticket is held.
type State uint8

// The states.
const (
	Gone State = iota
	Waiting
	Held
)

// Status is what the backend says of a ticket.
type Status struct {
	State     State
	Token     uint64 // of a holder
	Inherited bool   // of a holder
	Wanted    bool   // of a holder: a waiter is behind it
	Revoked   bool
	Evicted   bool
	Stray     bool
	Fixed     bool
	Left      time.Duration // until its own end, if it has one: Fixed, Evicted or Stray
	Hold      time.Duration // of a fixed ticket: how long the fixed time is that ends then
	Due       time.Duration // of a waiter near the front: until its expiry timer is to fire; 0: it has none
	Ahead     int           // of a waiter with an expiry timer: how many waiters are in front of it
	Unsettled bool          // its queue: a holder has expired, or the first waiter fits
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
