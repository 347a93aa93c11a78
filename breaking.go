package interlock

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/internal/backoff"
)

// inDeadlock is the ErrDeadlock of a wait that fails so that the others of a deadlock go on.
type inDeadlock struct{ Deadlock }

func (b *inDeadlock) Error() string { return "deadlock: " + b.Deadlock.String() }
func (b *inDeadlock) Unwrap() error { return ErrDeadlock }

// brokenBy is why a wait fails whose context this is; nil unless it does so to break a deadlock.
func brokenBy(step context.Context) error {
	var b *inDeadlock
	if errors.As(context.Cause(step), &b) {
		return b
	}
	return nil
}

// breakDeadlocks fails the wait if it is in a deadlock, and is the one that has to. Whoever began to wait
// last has closed the cycle, and finds it when it looks for the first time: so it looks seldom after that.
func (w *wait) breakDeadlocks(ctx context.Context) {
	const most = 8
	clients := append([]*Client{w.lock.c}, w.lock.cfg.breaks...)
	rest := w.lock.c.TTL() - time.Since(w.since)
	for n := time.Duration(1); backoff.Sleep(ctx, max(rest, 0)) == nil; n = min(2*n, most) {
		found, _ := Deadlocks(ctx, clients...) // after an error it looks again
		for _, d := range found {
			if d.youngest() == w.id && ctx.Err() == nil {
				w.fail(&inDeadlock{d})
				return
			}
		}
		rest = n * w.lock.c.TTL()
	}
}

// youngest is the ID of the wait that began last of those that break deadlocks; "" if there is none.
func (d Deadlock) youngest() string {
	var last Blocked
	for _, b := range d.Waits {
		if b.breaks && (last.id == "" || b.older(last) > 0) {
			last = b
		}
	}
	return last.id
}
