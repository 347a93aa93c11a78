package zklock

import (
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// When a session ends, the servers write the paths of all its ephemeral nodes in one
// transaction, however long. One that is longer than twice their jute.maxbuffer (a
// million bytes by default) they can write, but not
// read again: no server would ever start any more. So a session has no more
// tickets than are safe. The same goes for what one ticket says of itself.
var mostWeight = 1_000_000

const (
	mostMeta = 512 << 10
	mostData = 900_000 // of a node that grows, such as the one of demands
)

// checkData refuses a message for which a server would end the connection, each time.
func checkData(path string, data []byte) error {
	if len(data) > mostData {
		return driver.Permanent(fmt.Errorf("zookeeper: %s would have %d bytes, more than servers take", path, len(data)))
	}
	return nil
}

// weighs is what a ticket adds to that transaction.
func (c *config) weighs(q *queue, j *exchange.Join) int {
	t := c.ticketOf(j)
	return (len(q.path) + 1 + len(t.stem()) + 4 + 10) * int(1+min(t.wish, mostData)) // its length, and its number; a lease for each permit
}

// burden adds a ticket to its session, unless servers could not bear that.
func (s *session) burden(q *queue, j *exchange.Join) error {
	if n := len(j.Note); n > mostMeta/2 { // it is written in base64
		return driver.Invalid(fmt.Errorf("zookeeper: the note has %d bytes, of which servers would end the connection", n))
	}
	if !s.l.Burden(s.zk, s.store.weighs(q, j), mostWeight) {
		return driver.Permanent(fmt.Errorf("zookeeper: the session has tickets whose paths are %d bytes long, more than servers could remove at once when it ends: use several clients", mostWeight))
	}
	return nil
}
