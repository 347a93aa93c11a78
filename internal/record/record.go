// Package record says where records stand, and what they tell.
//
// A record tells other clients what the tickets of a lock do not: that work overruns ([Overrun]), or what the caller of
// a wait holds (see package deadlock). The client stands in a queue beside the lock's, in which nobody waits. Its
// ticket there is renewed with all others, and ends with the client. Its note is what is told.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// What the names of the queues of records begin with. Names of locks do not.
const (
	Overruns = "~overrun/"
	Waits    = "~waiting/"
)

// IsReserved reports a name that only queues of records have.
func IsReserved(name string) bool {
	return strings.HasPrefix(name, Overruns) || strings.HasPrefix(name, Waits)
}

// Beside is the name of a queue of records of a lock. It has room for a name of any length.
func Beside(prefix, queue string) string {
	sum := sha256.Sum256([]byte(queue))
	return prefix + hex.EncodeToString(sum[:16])
}

// Overrun is the record of work that goes on though its lease was lost, in JSON.
type Overrun struct {
	Queue    string        `json:"queue"`
	Kind     driver.Kind   `json:"kind"`
	Capacity int64         `json:"capacity"`
	Ticket   string        `json:"ticket"`
	Units    int64         `json:"units"`
	Token    uint64        `json:"token,string"` // of the lease
	Age      time.Duration `json:"age"`          // of the overrun, in nanoseconds, when the record was made
	Note     string        `json:"note,omitempty"`
}

// MostOfNote is how much of a lock's note is recorded, in bytes.
const MostOfNote = 1024

// Bytes is the record as the note of its ticket.
func (r Overrun) Bytes() []byte {
	b, err := json.Marshal(r)
	if err != nil || len(b) > driver.MaxNote {
		r.Note = ""
		b, _ = json.Marshal(r)
	}
	return b
}
