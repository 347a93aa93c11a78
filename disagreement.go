package interlock

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// disagreement is ErrMismatch with what the two sides take the lock for, and who the others
// are, if the backend tells.
func (l *Lock) disagreement(ctx context.Context, err error) error {
	call := l.c.call(ctx)
	defer call.release()
	q, unknown := l.c.d.Follow(call, l.queue, "")
	if unknown == nil && q.Resized && q.Kind != l.kind {
		return fmt.Errorf("%w: this is %s, and by SetPermits it is %s", err, shape(l.kind, l.capacity), shape(q.Kind, q.Capacity))
	}
	if unknown != nil || len(q.Members) == 0 || q.Kind == l.kind && q.Capacity == l.capacity {
		return err
	}
	return fmt.Errorf("%w: this is %s, and for %s it is %s", err, shape(l.kind, l.capacity), q.Members[0].Owner, shape(q.Kind, q.Capacity))
}

func shape(kind driver.Kind, capacity int64) string {
	switch kind {
	case driver.Semaphore:
		return fmt.Sprintf("a semaphore with %d permits", capacity)
	case driver.RWMutex:
		return "a read-write lock"
	case driver.Election:
		return "an election"
	}
	return "a " + string(kind)
}
