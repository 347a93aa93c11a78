// Package deadlock finds waits of several clients that keep each other waiting for ever.
//
// Queues say who holds and who waits. They do not say that a waiter holds another lock. So a wait that
// holds something has a record ([Record]) at the backend, once it has lasted for a while: see [Waiter].
// [Find] reads all records and the queues that they name.
//
//   - record: the note of a ticket in a queue of records, which has no other purpose.
//   - held: a ticket that the caller of a wait has, and that does not leave while the wait lasts.
//   - stuck: a wait that can never be served, also when all leases have ended that can end.
//   - cycle: stuck waits; the next one keeps each of them waiting, and the first keeps the last.
package deadlock

import (
	"encoding/json"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Record says of a wait what its queue does not. It is written in JSON.
type Record struct {
	ID     string        `json:"id"`     // of the wait: one for all of its records
	Number int           `json:"number"` // of the record; that of the next one is larger
	Queue  string        `json:"queue"`  // that is waited for
	Units  int64         `json:"units"`
	Ticket string        `json:"ticket,omitempty"` // which waits there, in its place
	Holds  []string      `json:"holds,omitempty"`  // tickets that do not leave while it waits, unless the next record leaves them out
	Since  time.Time     `json:"since"`            // by the clock of the waiter
	TTL    time.Duration `json:"ttl"`              // of its client, in nanoseconds
	Breaks bool          `json:"breaks,omitempty"` // it fails rather than stay in a deadlock
	Note   string        `json:"note,omitempty"`
}

// note tells as much as there is room for: the innermost leases, if there are too many.
func (r Record) note() []byte {
	b, err := json.Marshal(r)
	for err == nil && len(b) > driver.MaxNote {
		if r.Note == "" {
			r.Holds = r.Holds[:len(r.Holds)/2]
		}
		r.Note = ""
		b, err = json.Marshal(r)
	}
	return b
}
