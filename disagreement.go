package interlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/oneline"
)

// disagreement is ErrMismatch with what the two sides take the lock for, and who the others
// are, if the backend tells.
func (l *Lock) disagreement(ctx context.Context, err error) error {
	call := l.c.e.Call(ctx)
	defer call.Release()
	q, unknown := l.c.e.Driver().Follow(call, l.cfg.Queue, "")
	if unknown == nil && q.Resized && (q.Kind != l.cfg.Kind || q.Capacity != l.cfg.Capacity) {
		return fmt.Errorf("%w: this is %s, and by SetPermits it is %s", err, shape(l.cfg.Kind, l.cfg.Capacity), shape(q.Kind, q.Capacity))
	}
	at := slices.IndexFunc(q.Members, func(m driver.Member) bool { return !m.Foreign }) // others agree with all
	if unknown != nil || at < 0 || q.Kind == l.cfg.Kind && q.Capacity == l.cfg.Capacity {
		return err
	}
	return fmt.Errorf("%w: this is %s, and for %s it is %s", err, shape(l.cfg.Kind, l.cfg.Capacity), oneline.Name(q.Members[at].Owner), shape(q.Kind, q.Capacity))
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
