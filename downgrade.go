package interlock

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/driver"
)

// Downgrade turns a writer's lease into a reader's, without letting another
// writer in between: waiting readers get in beside it. An exchange whose reply
// is lost is repeated until ctx ends. After an error, also if ctx had ended before,
// the lease is a reader's all the same, though others may be kept out still; Downgrade
// can be called again. Only after ErrInvalid it may be a writer's still: a lock that is
// acquired again by its holder, and a lease of ExpiresAfter of another session, are not downgraded. Of a
// lease of [All] the parts that are writers' sides become readers' sides, and the others stay.
func (l *Lease) Downgrade(ctx context.Context) error {
	found := false
	for _, p := range l.held.Parts() {
		if leaseOf(p).lock.cfg.Kind != driver.RWMutex {
			continue
		}
		found = true
		if err := p.Shrink(ctx, 1); err != nil {
			return l.failPart("downgrade", p, err)
		}
	}
	if !found {
		return l.fail("downgrade", driver.Invalid(errors.New("only a read-write lock has readers, and this has none")))
	}
	return l.fail("downgrade", l.Err())
}
