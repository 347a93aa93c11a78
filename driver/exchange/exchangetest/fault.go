package exchangetest

import "slices"

// Fault is a sentence of the contract of a Store that a world breaks, by its name in package
// exchange; the fault of a method has the method's name.
type Fault string

// The faults.
const (
	Atomic                 Fault = "Atomic"                 // Leave takes the ticket out, and then grants in another exchange
	Alone                  Fault = "Alone"                  // Join relies on what it has read before it has the queue for itself
	Prefix                 Fault = "Prefix"                 // a waiter passes one that waits for more units
	GrantInTheSameExchange Fault = "GrantInTheSameExchange" // Leave grants no waiter, and does not say so
	OneClock               Fault = "OneClock"               // an end is sent, by the clock of the client
	OneEnd                 Fault = "OneEnd"                 // a ticket ends with its session, although its Join promised more
	NeverBack              Fault = "NeverBack"              // the end of a session is that of the last heartbeat that arrives
	OverIsOver             Fault = "OverIsOver"             // a session that has expired is extended
	OneTicket              Fault = "OneTicket"              // a repeated Join makes another ticket
	Buried                 Fault = "Buried"                 // a Leave leaves no tombstone
	TokensGrow             Fault = "TokensGrow"             // each token is 1
	Told                   Fault = "Told"                   // no event is sent of a grant, nor of a waiter
	NotBefore              Fault = "NotBefore"              // the event of a grant is sent before the Leave takes effect
	OnlyOnce               Fault = "OnlyOnce"               // a repeated Swap is another one

	Begin    Fault = "Begin"    // the session ends sooner than one TTL from then
	Withdraw Fault = "Withdraw" // waiters do not leave
	Shrink   Fault = "Shrink"   // the units that are free are granted to no waiter
	Keep     Fault = "Keep"     // a ticket that is evicted is prolonged
	Renew    Fault = "Renew"    // the reply is not of what was read after the session was extended
	Detach   Fault = "Detach"   // a ticket that is not named is extended
	Attach   Fault = "Attach"   // a stray stays one
	Look     Fault = "Look"     // a ticket is seen that has expired
	Settle   Fault = "Settle"   // the dead are not taken out
	End      Fault = "End"      // tickets outlive the end of their session
	Ask      Fault = "Ask"      // a demand is sent, and not kept for a client that does not hear of it
	Raise    Fault = "Raise"    // the floor is forgotten
	Resize   Fault = "Resize"   // an empty queue forgets its capacity
	Read     Fault = "Read"     // no event is sent of the change of a queue
	Load     Fault = "Load"     // no event is sent of the change of a cell
	Tickets  Fault = "Tickets"  // tickets are missing
	Clock    Fault = "Clock"    // the time is of another clock, which is ahead
	List     Fault = "List"     // a page that is full is the last
	Cells    Fault = "Cells"    // a page begins with the name that the last one has ended with
	Tidy     Fault = "Tidy"     // rows are removed that are of use
	Listen   Fault = "Listen"   // it is up before events are kept for it
	Explain  Fault = "Explain"  // an error that passes is permanent
	Check    Fault = "Check"    // what was not asked is OK
	Close    Fault = "Close"    // the connection stays

	// Further sentences.
	Copy            Fault = "Copy"            // a Join finds its ticket only with Retry
	Found           Fault = "Found"           // a Join that finds its ticket does not say so
	EndQueues       Fault = "EndQueues"       // the queues of a session that has ended are not returned
	AttachExpired   Fault = "AttachExpired"   // a stray that has expired ends with its session again
	RemovedAtExpiry Fault = "RemovedAtExpiry" // Removed is sent for a ticket that has expired

	Apart        Fault = "Apart"        // a change that is refused has those behind it in its list refused
	LostTogether Fault = "LostTogether" // a list whose reply is lost is answered

	GrantInWithdraw Fault = "GrantInWithdraw" // waiters leave that do not fit, and those behind them are not granted
	GrantInResize   Fault = "GrantInResize"   // the capacity is raised, and no waiter is granted
	GrantInAsk      Fault = "GrantInAsk"      // a holder is removed, and no waiter is granted
	ReadFirst       Fault = "ReadFirst"       // a heartbeat reads the tickets, and extends the session in another exchange

	// Those of a store without rows of sessions.
	Sent    Fault = "Sent"    // a Join that finds its ticket does not extend it
	Expired Fault = "Expired" // a ticket that expires leaves no tombstone
	Extend  Fault = "Extend"  // a heartbeat extends what the caller has not named
	Leavers Fault = "Leavers" // what End names does not leave

	GrantInEnd Fault = "GrantInEnd" // what End names leaves, and no waiter is granted

	// Of a store over package keys: see Keyed.
	KeysAgree     Fault = "KeysAgree"     // a ticket of another kind is not refused
	KeysKnown     Fault = "KeysKnown"     // a place is taken for true that is not known
	KeysObstacles Fault = "KeysObstacles" // a waiter watches one of several that together keep it out
	KeysMark      Fault = "KeysMark"      // the leave of a ticket that was not exclusive is a mark
	KeysHeld      Fault = "KeysHeld"      // a number of permits does not say who was held when it was set

	// Those of what few stores have.
	Confirm  Fault = "Confirm"  // a replica need not have the grant
	RaiseAll Fault = "RaiseAll" // queues that come later begin below the floor
	Liveness Fault = "Liveness" // the file that a session lives as long as is not named
)

// has reports whether the world has a fault.
func (w *World) has(f Fault) bool { return slices.Contains(w.faults, f) }

// either is wrong in a world that has a fault, and right in any other.
func either[T any](w *World, f Fault, wrong, right T) T {
	if w.has(f) {
		return wrong
	}
	return right
}

// Faults are all of them.
var Faults = []Fault{
	Atomic, Alone, Prefix, GrantInTheSameExchange, OneClock, OneEnd, NeverBack, OverIsOver, OneTicket, Buried, TokensGrow, Told, NotBefore, OnlyOnce,
	Begin, Withdraw, Shrink, Keep, Renew, Detach, Attach, Look, Settle, End, Ask, Raise, Resize, Read, Load,
	Tickets, Clock, List, Cells, Tidy, Listen, Explain, Check, Close,
	Copy, Found, EndQueues, AttachExpired, RemovedAtExpiry, Apart, LostTogether, GrantInWithdraw, GrantInAsk, GrantInResize, ReadFirst,
	Sent, Expired, Extend, Leavers, GrantInEnd,
	Confirm, RaiseAll, Liveness,
}

// InScenarios are those that no rule of drivertest can bring about: the tests of this package do.
var InScenarios = []Fault{
	Atomic, Alone, OneClock, OneEnd, NeverBack, NotBefore, Tickets, Tidy, Listen, Explain, Check, Close,
	Copy, AttachExpired, RemovedAtExpiry, Apart, LostTogether, ReadFirst, Sent, Expired, Confirm, Liveness,
}
