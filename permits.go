package interlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// SetPermits gives the semaphore of a name another number of permits, also while it is in use, and
// keeps that number until [Admin.UnsetPermits]: it outlasts the end of all programs, and of the backend.
//
//   - The number is in force when SetPermits returns, in one exchange (on ZooKeeper and etcd in a few): waiters who fit now hold.
//   - Holders keep what they have, also beyond a smaller number. Nobody else gets a permit until enough have
//     been given back.
//   - Who waits for more permits than the new number leaves the line, and gets ErrMismatch. So does who asks for
//     more later.
//   - Programs that say another number (see [Client.Semaphore]) work with the one that was set: two exchanges
//     more for each acquire. Weight is checked against the program's own number, too.
//   - A lease that had all permits stays [Lease.Exclusive] by the number that it was acquired with, although others may
//     hold beside it when there are more. ErrDeadlock goes by the number, too, that the context's permits were acquired with.
//
// ErrInvalid: no permit, or more than a semaphore can have. ErrMismatch: the name is in use as something
// else. [errors.ErrUnsupported]: the backend cannot do it. While the backend cannot be reached it waits, and
// tries again, until ctx ends; it can be called again after an error.
func (a Admin) SetPermits(ctx context.Context, name string, permits int64) error {
	if permits < 1 || permits > driver.RWCapacity {
		return failed("set the permits of", name, driver.Invalid(fmt.Errorf("%d permits: 1 to %d are possible", permits, driver.RWCapacity)))
	}
	return a.c.resize(ctx, "set the permits of", name, permits)
}

// UnsetPermits takes back what [Admin.SetPermits] has set: the number is again that of the
// programs, once nobody holds or waits. Until then it stays in force, and programs that
// say another one get ErrMismatch. Without SetPermits before it changes nothing.
func (a Admin) UnsetPermits(ctx context.Context, name string) error {
	return a.c.resize(ctx, "unset the permits of", name, 0)
}

func (c *Client) resize(ctx context.Context, op, name string, permits int64) error {
	v := c.named(name)
	err := v.request(ctx, func(ctx context.Context) error {
		return c.e.Driver().Resize(ctx, v.key, permits)
	})
	if errors.Is(err, ErrMismatch) {
		err = fmt.Errorf("%w: only a semaphore has permits", err)
	}
	return v.fail(op, err)
}

// CapacitySet is the number of permits that is set for the name, after ErrMismatch. With none set it is the lock's own
// number, if that would be no mismatch by now. 0: that is not why it is one.
func (h holding) CapacitySet(ctx context.Context) (capacity int64, set bool, err error) {
	own := &h.lock.cfg
	if own.Kind != driver.Semaphore {
		return 0, false, nil
	}
	q, err := h.lock.c.look(ctx, own.Name)
	same := len(q.Members) == 0 || q.Kind == own.Kind && q.Capacity == own.Capacity
	switch {
	case err != nil || !q.Resized && !same:
		return 0, false, err
	case !q.Resized || q.Capacity == own.Capacity:
		return own.Capacity, q.Resized, nil
	case own.Units > q.Capacity:
		return 0, true, fmt.Errorf("%w: the number of permits was set to %d, and %d are wanted", ErrMismatch, q.Capacity, own.Units)
	}
	return q.Capacity, true, nil
}
