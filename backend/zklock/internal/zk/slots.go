package zk

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A server answers the requests of a connection in their order, and stops reading from all
// its clients when a thousand requests are under way. So thousands of waiters who come and go
// must not send all that they want at once: a renewal would be answered after them, too late,
// and not only that of their own client.
//
//   - A Join that is new, and a waiter that sets its watches, take one of the slots of the
//     connection. Whoever waits for a slot has sent nothing. Watches come first: those who
//     stand in line already may be about to hold.
//   - Tickets that wait leave together. Lists of a queue are shared, too.
//   - Renewals, releases of what is held and the end of a session take no slot.

// CrowdSlots is how many Joins and waiters of one connection send requests at a time, at most.
// Each has at most three under way. If answers are late, since the crowds of many clients meet
// at a server, there are fewer slots, down to fewestSlots.
const (
	CrowdSlots  = 32
	fewestSlots = 2
)

// slots bounds the requests of a crowd. Late answers halve it, others let it grow by one.
type slots struct {
	mu    sync.Mutex
	limit int // 0: CrowdSlots
	taken int
	cut   driver.Instant         // when it was halved
	lines [ranks][]chan struct{} // those who wait, first come, first served
}

// Rank is who comes first.
type Rank int

const (
	Watching Rank = iota
	Coming
	ranks
)

// take waits for a slot. Without an error the caller has to give it back.
func (s *slots) take(ctx context.Context, r Rank) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.taken < s.most() {
		s.taken++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.lines[r] = append(s.lines[r], turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.lines[r], turn)
	if i >= 0 {
		s.lines[r] = slices.Delete(s.lines[r], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.give(0, time.Minute) // it came at this moment
	}
	return ctx.Err()
}

// free takes a slot that is free.
func (s *slots) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most() {
		return false
	}
	s.taken++
	return true
}

func (s *slots) most() int { return cmp.Or(s.limit, CrowdSlots) }

// give gives a slot back that was used for so long. It is late if that is more than patience.
func (s *slots) give(took, patience time.Duration) {
	now := driver.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case took <= patience:
		s.limit = min(s.most()+1, CrowdSlots)
	case now.Sub(s.cut) > took: // not those who were sent before it was halved
		s.limit, s.cut = max(s.most()/2, fewestSlots), now
	}
	s.taken--
	for r := range s.lines {
		for len(s.lines[r]) > 0 && s.taken < s.most() {
			close(s.lines[r][0])
			s.lines[r] = s.lines[r][1:]
			s.taken++
		}
	}
}

// Slot takes a slot. Whoever has it gives it back when its requests are answered.
func (l *Link) Slot(ctx context.Context, r Rank) (give func(), err error) {
	if err := l.slots.take(ctx, r); err != nil {
		return nil, err
	}
	return l.giving(), nil
}

// FreeSlot is Slot that does not wait; nil: none is free.
func (l *Link) FreeSlot() (give func()) {
	if !l.slots.free() {
		return nil
	}
	return l.giving()
}

func (l *Link) giving() func() {
	began := driver.Now()
	return sync.OnceFunc(func() {
		_, timeout := l.Tap.State()
		l.slots.give(driver.Now().Sub(began), timeout/40)
	})
}
