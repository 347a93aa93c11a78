// Package rows is for a Store that keeps a queue with all its tickets in one row, and a cell in
// another: a value behind a compare-and-swap, a file that is locked, a map behind a mutex. It is the
// rule of these rows, and does no I/O. There are no rows of sessions.
//
// An exchange with a row, in an order that keeps the contract of [exchange.Store]:
//
//  1. Lock the row, or note its version, and read it. A row that is missing is one with its Name only.
//  2. Call [Begin]. A queue is settled by that.
//  3. Call the method of the exchange: the name is that of Store.
//  4. If Changed, write the row, also if the method has returned an error: a Leave of a ticket that does
//     not stand leaves a tombstone. If the row has another version now, begin anew with 1.
//  5. Send Events. Sent sooner, a client would be told of what may never be written.
//
// Each exchange leaves the queue settled: Store.Settle is [Begin], and the methods of the Store say that
// nothing is unsettled. It looks at all tickets, so that a hand-over takes longer the more wait.
package rows

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
)

// Exchange is what an exchange has besides the row. It is not written.
type Exchange struct {
	Now     time.Time // by the backend's clock
	Changed bool      // the row is to be written
	Events  []Event   // are to be sent then
}

// Event is an event, and to whom it is sent.
type Event struct {
	Mailbox string
	exchange.Event
}

// Row is a [Queue] or a [Cell].
type Row interface{ begin(now time.Time) *Exchange }

// Begin begins an exchange with a row, at a time by the backend's clock.
func Begin(row Row, now time.Time) *Exchange { return row.begin(now) }

func (x *Exchange) send(mailbox string, ev exchange.Event) {
	x.Events = append(x.Events, Event{mailbox, ev})
}

// follow has the next change sent to a follower, if there is one.
func (x *Exchange) follow(followers *[]string, f exchange.Follower) {
	if f.Mailbox != "" && !slices.Contains(*followers, f.Mailbox) {
		*followers, x.Changed = append(*followers, f.Mailbox), true
	}
}

// change is called when a row changes so that its followers are told.
func (x *Exchange) change(followers *[]string, ev exchange.Event) {
	x.Changed = true
	for _, mailbox := range *followers {
		x.send(mailbox, ev)
	}
	*followers = nil
}

// Page is the next names of a table that are wanted, in their order: a bounded number of those that
// begin with prefix and come after from.
func Page[R any](table map[string]R, prefix, from string, wanted func(name string) bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if name > from && strings.HasPrefix(name, prefix) && len(names) < perPage && wanted(name) {
			names = append(names, name)
		}
	}
	return names
}

const perPage = 100
