package chaos

import (
	"fmt"
	"sync"

	"github.com/interlock-go/interlock"
)

// Hall counts what is held of one lock, by leases that have not ended.
type Hall struct {
	Capacity int64

	mu     sync.Mutex
	inside map[*interlock.Lease]int64
	grants int
}

// Enter notes a holder of so many units.
func (h *Hall) Enter(l *interlock.Lease, units int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inside == nil {
		h.inside = map[*interlock.Lease]int64{}
	}
	h.grants++
	h.inside[l] = units
	used := int64(0)
	for lease, units := range h.inside {
		if lease.Err() == nil {
			used += units
		}
	}
	if used > h.Capacity {
		return fmt.Errorf("%s: %d of %d units are held", l.Name(), used, h.Capacity)
	}
	return nil
}

// Leave is called before the holder releases.
func (h *Hall) Leave(l *interlock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inside, l)
}

// Grants is how many have entered.
func (h *Hall) Grants() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grants
}
