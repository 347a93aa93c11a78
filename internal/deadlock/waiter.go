package deadlock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/record"
)

// Waiter is a wait without a time limit whose caller holds something else. Once it has lasted for a while, a
// record tells it to other clients until the wait is over. A wait that holds nothing needs no Waiter, and
// costs nothing.
//
// A record that is asked for is replaced by one with a larger number, which says that the wait goes on, and what it
// still holds: see [Find]. So nobody has to be told when one of the leases ends.
type Waiter struct {
	Record // its ID, Queue, Units, Ticket, TTL and Note

	// Holds returns the tickets that the caller holds now, innermost first.
	Holds func() []string

	// Keep keeps a record of the lock until ctx ends. note is told how many there have been.
	Keep func(ctx context.Context, queue string, note func(made int) []byte)

	// Find looks for deadlocks. Without it the wait does not fail.
	Find func(context.Context) ([]Cycle, error)

	// Failed is the error of a wait that fails so that the others of the cycle go on.
	Failed func(Cycle) error
}

// noticed is how long a wait lasts before others are told of it.
const noticed = time.Second

// Begin is called when the wait begins. The context that it returns ends with ctx, or when the wait is to fail,
// and its cause is what it fails with. over is called when the wait has ended. The record ends with client, too;
// background runs a function until then.
func (w *Waiter) Begin(ctx, client context.Context, background func(func())) (step context.Context, over func()) {
	w.Since, w.Breaks = time.Now(), w.Find != nil
	told, end := context.WithCancel(client)
	fail := func(error) {}
	if w.Breaks {
		ctx, fail = context.WithCancelCause(ctx)
	}
	timer := time.AfterFunc(noticed, func() {
		background(func() { w.tell(told) })
		if w.Breaks {
			background(func() { w.breakDeadlocks(told, fail) })
		}
	})
	return ctx, func() {
		timer.Stop()
		end()
		fail(nil)
	}
}

// tell keeps the record until ctx ends.
func (w *Waiter) tell(ctx context.Context) {
	if len(w.Holds()) == 0 {
		return
	}
	r := w.Record
	w.Keep(ctx, record.Beside(record.Waits, r.Queue), func(made int) []byte {
		r.Number, r.Holds = made, w.Holds()
		return r.note()
	})
}

// breakDeadlocks fails the wait if it is in a deadlock, and the one that has to: the one that began to wait
// last of those that break deadlocks. That one has closed the cycle, and finds it when it looks for the first
// time: so the next looks may come late. It may be that it cannot see the cycle with its own clients. So each
// other one fails, too, if the deadlock stands for longer than the younger ones would have needed.
func (w *Waiter) breakDeadlocks(ctx context.Context, fail context.CancelCauseFunc) {
	next := w.TTL - time.Since(w.Since)
	var first time.Time // when the deadlock was seen that still stands
	for pause := w.TTL; backoff.Sleep(ctx, max(next, 0)) == nil; pause *= 2 {
		found, err := w.Find(ctx)
		stands := false
		for _, c := range found {
			younger, has := c.younger(w.ID)
			if !has {
				continue
			}
			if stands = true; first.IsZero() {
				first = time.Now()
			}
			if time.Since(first) >= time.Duration(younger)*patienceWithYounger*w.TTL && ctx.Err() == nil {
				fail(w.Failed(c))
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
