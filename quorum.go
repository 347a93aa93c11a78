package interlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
)

// Quorum makes one client of several, at least three, whose backends are independent of each other:
// a lock of the new client is held by whoever holds it on a majority of them, so it outlives the loss of
// a minority. It is for a program that has clients of these backends already; others open a URL of
// quorum:, which is the same and opens backends later that cannot be reached now. Package quorumlock says
// what is promised, what it costs and what is refused.
//
// The locks have the same names on all members: the prefix of each member's client does not count, and
// that of the quorum is an option, like its TTL. All programs have to name the same backends, in any
// order, and two of the clients must not be of the same backend, which is found out later: that
// member does not count then.
//
// The quorum has a session of its own with each member. Close it before the members: it does not close them, and
// a member that is closed is lost to it. ctx bounds the opening. It fails if fewer than a majority of members
// answer, and with ErrInvalid if there are fewer than three, or one twice.
func Quorum(ctx context.Context, members []*Client, opts ...ClientOption) (*Client, error) {
	var drivers []driver.Driver
	for i, m := range members {
		if m == nil || slices.Contains(members[:i], m) {
			return nil, fmt.Errorf("interlock: quorum: %w", driver.Invalid(errors.New("a client is nil, or there twice")))
		}
		drivers = append(drivers, lent{m.d})
	}
	d, err := quorumlock.New(drivers...)
	if err != nil {
		return nil, fmt.Errorf("interlock: %w", public(err))
	}
	c, err := New(ctx, d, opts...)
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return c, nil
}

// lent is a driver that belongs to another client.
type lent struct{ driver.Driver }

func (lent) Close() error { return nil }
