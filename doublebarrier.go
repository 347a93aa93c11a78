package interlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
)

// DoubleBarrier lets a fixed number of members enter together and leave
// together, round after round. Whoever comes while a round is full waits for
// the next. A member that dies before the round is full does not count, once the
// backend has noticed, which takes up to a TTL; one that dies inside counts as having
// left.
//
// Each member stands in a queue, so that its death is seen. A cell names the
// members of the current round; the round is over when none of them stands in
// the queue any more, and the next n in the queue are the next round.
type DoubleBarrier struct {
	c       *Client
	lock    *Lock
	members int
	note    string // tells the others how many this one waits for
	cell    cell
}

const maxMembers = 1000

// DoubleBarrier makes a double barrier. All its users must agree on the number
// of members, 1 to 1000: ErrMismatch.
func (c *Client) DoubleBarrier(name string, members int) *DoubleBarrier {
	b := &DoubleBarrier{
		c: c, members: members, note: fmt.Sprintf("one of %d", members),
		cell: c.cell("round", name),
	}
	b.lock = c.lock(driver.Barrier, name, 1, driver.RWCapacity, []Option{Note(b.note)})
	if b.lock.err == nil && (members < 1 || members > maxMembers) {
		b.lock.err = driver.Invalid(fmt.Errorf("a barrier of %d members: 1 to %d are possible", members, maxMembers))
	}
	return b
}

// Enter waits until a round is full with this member in it. If ctx ends first,
// the member does not count, and the error says how many were there; if it ends just as the
// round fills, the member counts as having left. Its place is given up before Enter returns,
// unless that takes longer than 100 ms: then in the background, at the latest by the end of the TTL.
//
// A member that is taken for dead while it waits, such as after an outage of the backend, comes
// again, behind the others. If a round has begun with it meanwhile, which the others have
// entered without it, the error wraps ErrLost. So does that of one that was evicted.
//
// The lease ends if the member is taken for dead;
// Leave it, or Release it to leave without waiting for the others.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Lease, error) {
	for {
		lease, err := b.lock.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		waiting, inside := 0, 0
		held, cancel := lease.Bind(ctx)
		err = b.until(held, func(ctx context.Context, m *meeting) (bool, error) {
			waiting, inside = m.count(b)
			return b.entered(ctx, m, lease)
		})
		cancel()
		if err == nil {
			return lease, nil
		}
		lost := lease.Err()
		b.abandon(lease)
		switch {
		case ctx.Err() != nil && inside > 0:
			err = fmt.Errorf("%w: %d of %d members were there, and %d of the last round had not left", err, waiting, b.members, inside)
		case ctx.Err() != nil && waiting > 0:
			err = fmt.Errorf("%w: %d of %d members were there", err, waiting, b.members)
		case ctx.Err() == nil && errors.Is(lost, ErrLost) && !errors.Is(lost, ErrEvicted):
			var missed bool
			if missed, err = b.missed(ctx, engine.TicketID(lease.ID())); err == nil && !missed {
				lease.span.emit(Event{Kind: EventRejoined, Err: lost})
				continue
			}
			if missed {
				err = fmt.Errorf("%w; the others have entered without it", lost)
			}
		}
		return nil, b.cell.fail("enter", err)
	}
}

// abandon gives up the place of a member that does not enter. It does not wait for long.
func (b *DoubleBarrier) abandon(l *Lease) {
	b.c.e.Await(b.c.e.Task(func() { _ = l.Release() }), engine.Farewell)
}

// missed reports whether a round has begun with a ticket that was lost. It waits until the ticket
// is gone: until then it counts as a member.
func (b *DoubleBarrier) missed(ctx context.Context, id string) (missed bool, err error) {
	err = b.until(ctx, func(_ context.Context, m *meeting) (bool, error) {
		missed = m.members[id]
		return !slices.ContainsFunc(m.queue, func(q driver.Member) bool { return q.ID == id }), nil
	})
	return missed, err
}

// Count returns how many members wait for the next round, and how many of the last one have not left.
func (b *DoubleBarrier) Count(ctx context.Context) (waiting, inside int, err error) {
	err = b.until(ctx, func(_ context.Context, m *meeting) (bool, error) {
		waiting, inside = m.count(b)
		return true, nil
	})
	return waiting, inside, b.cell.fail("look at", err)
}

// Leave gives the member's place up, whatever ctx says, and waits until no member of its round is
// inside any more.
//
// That it returns nil does not say that the others have finished. A member counts as having left,
// too, if its process has died, if it was cut off from the backend for a TTL or evicted, or if its
// lease was only released. Where that matters, each member notes that it has finished before it
// leaves. A [Latch] for the round does: it is set to the number of members, each counts it down
// before Leave, and what is left of it after Leave is how many have ended inside.
//
// The error wraps ErrLost if this member was itself taken for dead: the others may have left
// without it. If ctx ends first, the member has left; whether the others have is not known.
func (b *DoubleBarrier) Leave(ctx context.Context, l *Lease) error {
	id := engine.TicketID(l.ID())
	lost := l.Release()
	err := b.until(ctx, func(_ context.Context, m *meeting) (bool, error) {
		return !m.members[id] || m.over, nil
	})
	if err != nil {
		return b.cell.fail("leave", err)
	}
	return lost
}

// meeting is what a look shows of a double barrier.
type meeting struct {
	cell    driver.Cell
	members map[string]bool // of the round
	queue   []driver.Member
	over    bool                // no member of the round stands in the queue
	begins  *atomic.Bool        // a member of this client is about to begin the next round: of all looks at one cell
	nexts   map[string][]string // the IDs of the next round's members, by their note; guarded by Client.mu
}

// meetings makes meetings of looks that follow each other.
func meetings() func(driver.Cell, driver.Queue) (*meeting, error) {
	last := &meeting{begins: new(atomic.Bool)}
	return func(cell driver.Cell, queue driver.Queue) (*meeting, error) {
		m, err := meetingIn(cell, queue)
		if err == nil {
			if m.begins = last.begins; cell.Version != last.cell.Version {
				m.begins = new(atomic.Bool)
			}
			last = m
		}
		return m, err
	}
}

func meetingIn(cell driver.Cell, queue driver.Queue) (*meeting, error) {
	m := &meeting{cell: cell, members: map[string]bool{}, queue: queue.Members, nexts: map[string][]string{}}
	if cell.Exists {
		var round driver.Round
		if err := json.Unmarshal(cell.Value, &round); err != nil {
			return nil, fmt.Errorf("the stored round: %w", err)
		}
		for _, id := range round.Members {
			m.members[id] = true
		}
	}
	// The queue was read last: who is not in it has left.
	m.over = !slices.ContainsFunc(m.queue, func(q driver.Member) bool { return m.members[q.ID] })
	return m, nil
}

// count returns how many members wait for the next round, and how many of the round have not left.
func (m *meeting) count(b *DoubleBarrier) (waiting, inside int) {
	for _, q := range m.queue {
		switch {
		case m.members[q.ID]:
			inside++
		case b.agrees(q):
			waiting++
		}
	}
	return waiting, inside
}

// next returns the IDs of the members with which the next round can begin, nil if they are too few.
func (m *meeting) next(b *DoubleBarrier) []string {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	next, known := m.nexts[b.note]
	if !known {
		for _, q := range m.queue {
			if len(next) < b.members && b.agrees(q) {
				next = append(next, q.ID)
			}
		}
		if len(next) < b.members {
			next = nil
		}
		m.nexts[b.note] = next
	}
	return next
}

func (b *DoubleBarrier) until(ctx context.Context, done func(context.Context, *meeting) (bool, error)) error {
	return until(ctx, b.cell, meetings(), done)
}

// entered reports whether the lease's ticket is of the current round, after
// beginning the next round if that can be done. Of the members of this client one tries
// that at a time. If it fails, it leaves: then there is another look, and another one tries.
func (b *DoubleBarrier) entered(ctx context.Context, m *meeting, l *Lease) (bool, error) {
	id := engine.TicketID(l.ID())
	if err := b.agree(m.queue, id); err != nil {
		return false, err
	}
	if m.members[id] {
		return true, nil
	}
	if !m.over {
		return false, nil
	}
	next := m.next(b)
	if !slices.Contains(next, id) || !m.begins.CompareAndSwap(false, true) {
		return false, nil
	}
	value, err := json.Marshal(driver.Round{Members: next})
	if err != nil {
		return false, err
	}
	_, err = b.cell.swap(ctx, driver.Swap{Version: m.cell.Version, Value: value})
	if err != nil {
		m.begins.Store(false)
	}
	if isConflict(err) {
		return false, nil // another was faster: there will be a look at what it did
	}
	return err == nil, err
}

// agrees reports whether a member waits for as many. One of another library has no
// note, and does not say.
func (b *DoubleBarrier) agrees(m driver.Member) bool {
	return len(m.Note) == 0 || string(m.Note) == b.note
}

// agree reports whether the one who came first wants as many members. Whoever
// does not is about to leave, and does not count.
func (b *DoubleBarrier) agree(queue []driver.Member, id string) error {
	if len(queue) > 0 && queue[0].ID != id && !b.agrees(queue[0]) {
		return fmt.Errorf("%w: who came first is %q, this one is %q", ErrMismatch, queue[0].Note, b.note)
	}
	return nil
}
