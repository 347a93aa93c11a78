package interlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/internal/backoff"
)

// inDeadlock is the ErrDeadlock of a wait that fails so that the others of a deadlock go on.
type inDeadlock struct{ Deadlock }

func (b *inDeadlock) Error() string { return "deadlock: " + b.Deadlock.String() }
func (b *inDeadlock) Unwrap() error { return ErrDeadlock }

// inDeadlockOf reports whether a wait has failed with this error to break a deadlock.
func inDeadlockOf(err error) bool {
	if err == nil {
		return false // without what As allocates
	}
	var b *inDeadlock
	return errors.As(err, &b)
}

// breakDeadlocks fails the wait if it is in a deadlock, and the one that has to: the one that began to wait
// last of those that break deadlocks. That one has closed the cycle, and finds it when it looks for the first
// time: so the next looks may come late. It may be that it cannot see the cycle with its own clients. So each
// other one fails, too, if the deadlock stands for longer than the younger ones would have needed.
func (w *wait) breakDeadlocks(ctx context.Context) {
	clients := append([]*Client{w.lock.c}, w.lock.cfg.breaks...)
	ttl := w.lock.c.TTL()
	next := ttl - time.Since(w.since)
	var first time.Time // when the deadlock was seen that still stands
	for pause := ttl; backoff.Sleep(ctx, max(next, 0)) == nil; pause *= 2 {
		found, err := Deadlocks(ctx, clients...)
		stands := false
		for _, d := range found {
			younger, has := d.younger(w.id)
			if !has {
				continue
			}
			if stands = true; first.IsZero() {
				first = time.Now()
			}
			if time.Since(first) >= time.Duration(younger)*patienceWithYounger*ttl && ctx.Err() == nil {
				w.fail(&inDeadlock{d})
				return
			}
		}
		if !stands && err == nil { // after an error it looks again
			first = time.Time{}
		}
		next = pause
	}
}

// patienceWithYounger is for how many TTLs a wait leaves a deadlock to each younger one.
const patienceWithYounger = 4

// younger is how many waits of those that break deadlocks began after this one; false if it is none of them.
func (d Deadlock) younger(id string) (n int, has bool) {
	at := slices.IndexFunc(d.Waits, func(b Blocked) bool { return b.id == id })
	if at < 0 || !d.Waits[at].breaks {
		return 0, false
	}
	for _, b := range d.Waits {
		if b.breaks && b.older(d.Waits[at]) > 0 {
			n++
		}
	}
	return n, true
}
