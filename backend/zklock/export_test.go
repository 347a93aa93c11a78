package zklock

import (
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Open opens a driver as package driver does it for the registered schemes.
var Open = open

// RememberSwaps has a driver forget swaps after another time than a client may rely on.
func RememberSwaps(d driver.Driver, memory time.Duration) { storeOf(d).memory = memory }

func storeOf(d driver.Driver) *store {
	switch s := d.(*exchange.Driver).Store().(type) {
	case *laidOut:
		return s.store
	default:
		return s.(*store)
	}
}

// MostWeight has sessions of small servers refuse tickets in time.
func MostWeight(bytes int) (restore func()) {
	was := mostWeight
	mostWeight = bytes
	return func() { mostWeight = was }
}

// Connection is the connection of a session.
func Connection(o *driver.Opened) *zk.Conn {
	s := o.Session.(interface {
		Driver() *exchange.Driver
		Row() exchange.Session
	})
	return storeOf(s.Driver()).sessions[s.Row().ID].l.Conn
}

// CrowdSlots is how many Joins of a connection are under way at a time.
const CrowdSlots = zk.CrowdSlots

// Longest has a Tap take no answers that are longer.
func (t *Tap) Longest(bytes int) { t.tap.Longest = bytes }

// entryOf is a ticket of a session.
func entryOf(o *driver.Opened, id string) *entry {
	of := o.Session.(interface {
		Driver() *exchange.Driver
		Row() exchange.Session
	})
	return storeOf(of.Driver()).sessions[of.Row().ID].entry(id)
}

// Unfix has a session not know of the end that a ticket has, as if the answer that says so were under way.
func Unfix(o *driver.Opened, id string) {
	t := entryOf(o, id)
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.fixed = false
	t.settled.Stop()
	t.s.l.Ignore(t.own)
	t.own = nil
}

// Demand has a demand reach a ticket.
func Demand(o *driver.Opened, id string, what driver.Demand) { entryOf(o, id).demanded(what) }
