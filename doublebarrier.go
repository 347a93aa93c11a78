package interlock

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// DoubleBarrier lets a fixed number of members enter together and leave
// together, round after round. Whoever comes while a round is full waits for
// the next. A member that dies before the round is full does not count; one
// that dies inside counts as having left.
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

// MaxMembers is the largest number of members of a double barrier.
const MaxMembers = 1000

// DoubleBarrier makes a double barrier. All its users must agree on the number
// of members: ErrMismatch.
func (c *Client) DoubleBarrier(name string, members int) *DoubleBarrier {
	b := &DoubleBarrier{
		c: c, members: members, note: fmt.Sprintf("one of %d", members),
		cell: c.cell("round", name),
	}
	b.lock = c.lock(driver.Barrier, name, 1, driver.RWCapacity, []Option{Note(b.note)})
	if b.lock.err == nil && (members < 1 || members > MaxMembers) {
		b.lock.err = driver.Invalid(fmt.Errorf("a barrier of %d members: 1 to %d are possible", members, MaxMembers))
	}
	return b
}

// Enter waits until a round is full with this member in it. If ctx ends first,
// the member does not count; if it ends just as the round fills, it counts as
// having left. The lease ends if the member is taken for dead;
// Leave it, or Release it to leave without waiting for the others.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Lease, error) {
	lease, err := b.lock.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	held, cancel := lease.Bind(ctx)
	defer cancel()
	if err := b.cell.until(held, func(ctx context.Context) (bool, error) { return b.entered(ctx, lease) }); err != nil {
		_ = lease.Release()
		return nil, b.cell.fail("enter", err)
	}
	return lease, nil
}

// Leave gives the member's place up and waits until all members of its round
// have left or died. It returns an error that wraps ErrLost if the member had
// been taken for dead.
func (b *DoubleBarrier) Leave(ctx context.Context, l *Lease) error {
	lost := l.Release()
	err := b.cell.until(ctx, func(ctx context.Context) (bool, error) { return b.left(ctx, l) })
	if err != nil {
		return b.cell.fail("leave", err)
	}
	return lost
}

// entered reports whether the lease's ticket is of the current round, after
// starting the next round if that can be done.
func (b *DoubleBarrier) entered(ctx context.Context, l *Lease) (bool, error) {
	pause := backoff.Backoff{Most: 100 * time.Millisecond} // others are fast, the backend is not ill
	for {
		now, cell, queue, err := b.look(ctx)
		if err != nil {
			return false, err
		}
		id := l.t.req.ID
		if err := b.agree(queue, id); err != nil {
			return false, err
		}
		if slices.Contains(now.Members, id) {
			return true, nil
		}
		if anyOf(now.Members, ids(queue)) {
			return false, nil
		}
		standing := ids(slices.DeleteFunc(queue, func(m driver.Member) bool { return !b.agrees(m) }))
		if len(standing) < b.members || !slices.Contains(standing[:b.members], id) {
			return false, nil
		}
		next, err := json.Marshal(driver.Round{Members: standing[:b.members]})
		if err != nil {
			return false, err
		}
		if _, err := b.cell.swap(ctx, driver.Swap{Version: cell.Version, Value: next}); err == nil {
			return true, nil
		} else if !isConflict(err) {
			return false, err
		}
		if pause.Sleep(ctx) != nil {
			return false, context.Cause(ctx)
		}
	}
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

// left reports whether the round of the lease's ticket is over.
func (b *DoubleBarrier) left(ctx context.Context, l *Lease) (bool, error) {
	now, _, queue, err := b.look(ctx)
	if err != nil {
		return false, err
	}
	return !slices.Contains(now.Members, l.t.req.ID) || !anyOf(now.Members, ids(queue)), nil
}

// look reads the round and then the queue, in this order: a member of the
// round that is not in the queue has therefore left.
func (b *DoubleBarrier) look(ctx context.Context) (now driver.Round, cell driver.Cell, queue []driver.Member, err error) {
	if cell, err = b.cell.load(ctx); err != nil {
		return now, cell, nil, err
	}
	if cell.Exists {
		if err := json.Unmarshal(cell.Value, &now); err != nil {
			return now, cell, nil, fmt.Errorf("the stored round: %w", err)
		}
	}
	q, err := b.c.look(ctx, b.lock.name)
	return now, cell, q.Members, err
}

func ids(queue []driver.Member) []string {
	ids := make([]string, 0, len(queue))
	for _, m := range queue {
		ids = append(ids, m.ID)
	}
	return ids
}

func anyOf(ids, standing []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(standing, id) })
}
