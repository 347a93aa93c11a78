package interlock

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
)

// Admin is what operators and tools do with the locks of a backend: see who holds and who waits, take a lock away,
// set the permits of a semaphore, raise tokens, examine the backend. It works with the connections of its client.
type Admin struct{ c *Client }

// Admin returns the operations that are not for the programs that work under the locks.
func (c *Client) Admin() Admin { return Admin{c} }

// Exchanges counts the exchanges with the backend so far.
func (a Admin) Exchanges() uint64 { return a.c.e.Driver().Exchanges() }

// Check examines whether the backend is configured so that its promises hold.
func (a Admin) Check(ctx context.Context) []Finding { return a.c.e.Driver().Check(ctx) }

// Finding is one result of Check, of a client or of a URL.
type Finding = driver.Finding

// Revoke asks the holder of a lease or ticket to give it up: its
// [Lease.Revoked] is closed. Nothing happens if it does not listen. ErrLost:
// there is no such lease or ticket any more. While the backend cannot be reached it
// waits, until ctx ends.
func (a Admin) Revoke(ctx context.Context, name, id string) error {
	return a.c.ask(ctx, "revoke", name, id, driver.Revoke)
}

// Evict takes a lease or a place in line away. The holder's lease is lost at
// once, and the lock passes on when the holder has released it or its TTL has
// run out; for a lease of [ExpiresAfter] whose holder hears of nothing, its time. With force
// it passes on at once, while the holder may still be at work: unsafe, unless the resource
// checks tokens. A waiter lines up again at the end. A holder that is [Member].Foreign is only
// asked, unless with force, and one that cannot be asked is an error. ErrLost: there is no such
// lease or ticket any more. While the backend cannot be reached it waits, until ctx ends.
func (a Admin) Evict(ctx context.Context, name, id string, force bool) error {
	if force {
		return a.c.ask(ctx, "evict", name, id, driver.Force)
	}
	return a.c.ask(ctx, "evict", name, id, driver.Evict)
}

func (c *Client) ask(ctx context.Context, op, name, id string, d driver.Demand) error {
	v := c.named(name)
	return v.fail(op, v.request(ctx, func(ctx context.Context) error {
		err := c.e.Driver().Ask(ctx, v.key, engine.TicketID(id), d)
		if engine.IsGone(err) {
			return driver.Permanent(fmt.Errorf("%w: no holder and no waiter has the ID %q", ErrLost, engine.TicketID(id)))
		}
		return err
	}))
}

// Tokens that a floor has to leave: of these ZooKeeper takes 1<<32 for each leader that it elects, a
// backend that follows its clock 100,000 a second, and the others one for each grant. So
// they are enough for 4,096 leaders, or for five years.
const tokensLeft = 1 << 44

// endOfFloors is the first floor that leaves too few tokens of a backend above it.
const endOfFloors = (driver.MaxToken - tokensLeft) << engine.TokenBits

// RaiseToken makes every later token of the name larger than floor: for a
// backend that was restored from a backup, or when the lock moves here from another backend
// whose tokens were larger. A process that hands the lock on among its goroutines keeps its
// ticket meanwhile, and with it smaller tokens: raise before anybody takes the lock. Tokens
// end below 1<<63, and a lock without any more is granted to nobody: a floor of
// 1<<63 - 1<<56 or more is ErrInvalid. What the largest leaves is enough for 4,096 leaders of
// ZooKeeper, or for five years of a clock. While the backend cannot be
// reached it waits, until ctx ends.
func (a Admin) RaiseToken(ctx context.Context, name string, floor uint64) error {
	return a.c.named(name).raise(ctx, floor)
}

// RaiseTokens is RaiseToken for all names of the backend, whatever their prefix, also
// those that were never used. Whoever waits already may be granted a smaller token. On
// Redis, PostgreSQL and MySQL tokens follow the server's clock: a floor that the clock does not
// pass within ten seconds is ErrInvalid there.
func (a Admin) RaiseTokens(ctx context.Context, floor uint64) error {
	return cell{c: a.c}.raise(ctx, floor)
}

func (v cell) raise(ctx context.Context, floor uint64) error {
	if floor >= endOfFloors {
		return v.fail("raise token", driver.Invalid(fmt.Errorf("a floor of %d leaves too few tokens above it: the largest is %d", floor, uint64(endOfFloors-1))))
	}
	return v.fail("raise token", v.request(ctx, func(ctx context.Context) error {
		return v.c.e.Driver().Raise(ctx, v.key, floor>>engine.TokenBits)
	}))
}
