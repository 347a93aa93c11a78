// Package quorumlock makes one backend of several that are independent of each other: a lock is held
// by whoever holds it on a majority of them, so it outlives the loss of a minority. Over Redis
// servers this is what is known as RedLock. A member may be of any backend, also a Redis that is
// watched by Sentinels, or a Cluster.
//
//	import (
//		_ "github.com/interlock-go/interlock/backend/quorumlock"
//		_ "github.com/interlock-go/interlock/backend/redislock" // of the members
//	)
//
//	c, err := interlock.Open(ctx, "quorum:?member=redis%3A%2F%2Fr1&member=redis%3A%2F%2Fr2&member=redis%3A%2F%2Fr3")
//
// # Words
//
//   - A member is one of the backends. A link is a session's standing with one member.
//   - A majority is more than half of all members, whether they can be reached or not.
//   - A place is the ticket that a ticket of the quorum has at one member. Each place has an ID of its
//     own. Its note begins with the ID of the ticket, by which inspection and other sessions find it.
//   - A life of a member lasts until it loses its data. It has a random name, which is stored in
//     the member itself (see life.go).
//   - A member is sound once its life has lasted a TTL, muted while it does not answer, and
//     counts if it is sound and not muted.
//   - Members are ordered by the names of their lives, the same for all clients. The line of a ticket is
//     the member at which it waits.
//
// # Acquire
//
// A ticket waits at one member at a time, and only at a member that comes after all those where it
// has a place that is held. So no tickets wait for each other in a circle. It begins at the first member that
// counts. All others are tried at the same time without waiting. If the ticket has to wait at its
// line, it gives back what it got at later members. Once it is held there, the others are tried
// again. If they do not make a majority, the ticket waits at the next member. So locks are granted in
// the order of the first member, and a waiter needs no timer: the member tells it.
//
// A member can be in the way of a majority: others hold there, while the rest would grant. Either it is right, since
// the clock of another was set forward, or it is wrong, since it does not notice a death. See keeps.go.
//
// # What is excluded
//
// Two tickets are never held at once if they cannot both be held at one member: any two
// majorities have a member in common. This holds for mutexes, elections and read-write locks. The
// permits of a semaphore would not be limited: of three members with two permits each, three holders
// could have two each. So semaphores of more than one permit are refused with an
// error that wraps errors.ErrUnsupported.
//
// Its URL is quorum:?member=URL&member=URL&member=URL, each member a complete URL, percent-encoded as a whole. The
// options ttl, prefix and owner are those of the quorum. Cells, such as values and latches, are refused, too.
package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// Driver is one client of all members. It implements driver.Driver.
type Driver struct {
	members  []*member
	majority int
	now      func() driver.Instant

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

var _ driver.Driver = (*Driver)(nil)

// MinMembers is how many members a quorum has at least: two could lose none.
const MinMembers = 3

var errClosed = driver.Permanent(errors.New("quorum: driver is closed"))

// New makes a quorum of drivers that are open. It owns them: Close closes them, too, and so does an
// error. All clients of one quorum must have the same members, in any order.
func New(members ...driver.Driver) (*Driver, error) {
	all := make([]*member, len(members))
	for i, d := range members {
		all[i] = &member{name: fmt.Sprintf("member %d", i+1), d: d, busy: make(chan struct{}, 1)}
	}
	d, err := newDriver(all)
	if err != nil {
		for _, m := range members {
			_ = m.Close()
		}
		return nil, err
	}
	d.now = members[0].Now
	return d, nil
}

func newDriver(members []*member) (*Driver, error) {
	if len(members) < MinMembers {
		return nil, driver.Invalid(fmt.Errorf("a quorum of %d: at least %d members are needed", len(members), MinMembers))
	}
	d := &Driver{members: members, majority: len(members)/2 + 1, now: driver.Now}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, nil
}

// background runs f, unless the driver is closed. Close waits for it.
func (d *Driver) background(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.tasks.Go(f)
	}
}

// usable reports why a call is refused.
func (d *Driver) usable(ctx context.Context) error {
	if d.ctx.Err() != nil { // first: it ends contexts that are bound to it
		return errClosed
	}
	return ctx.Err()
}

// Now reads the clock of the first member, or of package driver if members were opened by a URL.
func (d *Driver) Now() driver.Instant { return d.now() }

// Exchanges adds up those of the members.
func (d *Driver) Exchanges() (n uint64) {
	for _, m := range d.members {
		if d := m.opened(); d != nil {
			n += d.Exchanges()
		}
	}
	return n
}

// Close closes the members. Sessions that were not closed look dead to others.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	var all sync.WaitGroup
	errs := make([]error, len(d.members))
	for i, m := range d.members {
		all.Go(func() { errs[i] = m.close() })
	}
	all.Wait()
	d.tasks.Wait()
	return errors.Join(errs...)
}
