package zklock

import (
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// Open opens a driver as package driver does it for the registered schemes.
var Open = open

// RememberSwaps has a driver forget swaps after another time than a client may rely on.
func RememberSwaps(d driver.Driver, memory time.Duration) { d.(*Driver).memory = memory }

// MostWeight has sessions of small servers refuse tickets in time.
func MostWeight(bytes int) (restore func()) {
	was := mostWeight
	mostWeight = bytes
	return func() { mostWeight = was }
}

// Connection is the connection of a session.
func Connection(s *driver.Opened) *zk.Conn { return s.Session.(*session).l.Conn }

// CrowdSlots is how many Joins of a connection are under way at a time.
const CrowdSlots = zk.CrowdSlots

// Withdrawals is how many waiters of a session are leaving.
func Withdrawals(s *driver.Opened) int {
	in := s.Session.(*session)
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.leaving.known)
}
