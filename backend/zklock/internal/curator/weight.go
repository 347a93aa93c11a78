package curator

import (
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// When a session ends, the servers write the paths of all its ephemeral nodes in one
// transaction, however long. One that is longer than twice their jute.maxbuffer (a
// million bytes by default; a little more than once before 3.6) they can write, but
// not read again: no server would ever start any more. So a session has no more
// tickets than are safe. The same goes for what one ticket says of itself.
var mostWeight = 1_000_000

const (
	mostMeta = 512 << 10
	mostData = 900_000 // of a node that grows, such as that of demands
)

// checkData refuses a message for which a server would end the connection, each time.
func checkData(path string, data []byte) error {
	if len(data) > mostData {
		return driver.Permanent(fmt.Errorf("zookeeper: %s would have %d bytes, more than servers take", path, len(data)))
	}
	return nil
}

// weight is what a ticket adds to that transaction.
func weight(c *config, q *lane, r *driver.Request) int {
	const more = 4 + 10 // the length, and the number
	one := len(q.path) + 1 + len(c.names.stem(r.ID, r.Kind, r.Units, r.Capacity)) + more
	if q.leases != nil { // a node for each unit
		return one * int(1+min(r.Units, int64(mostWeight)))
	}
	return one
}

func (p *place) weight() int { return weight(p.s.d.config, p.q, &p.req) }

// roomFor refuses a ticket that the servers could not bear.
func (s *session) roomFor(q *lane, r *driver.Request) error {
	if n := len(r.Note); n > mostMeta/2 { // it is written in base64
		return driver.Invalid(fmt.Errorf("zookeeper: the note has %d bytes, of which servers would end the connection", n))
	}
	if !s.l.Burden(s.zk, weight(s.d.config, q, r), mostWeight) {
		return driver.Permanent(fmt.Errorf("zookeeper: the session has tickets whose paths are %d bytes long, more than servers could remove at once when it ends: use several clients", mostWeight))
	}
	return nil
}
