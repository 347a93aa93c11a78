package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
)

// claim is what a job waits for before it begins.
type claim struct {
	get   func(context.Context) (*interlock.Lease, error)
	looks looks                               // what is told meanwhile
	busy  func(context.Context, error) string // what is said when the time to wait has run out
}

func (j *job) acquire(ctx context.Context, lock *interlock.Lock) (*interlock.Lease, error) {
	return j.take(ctx, claim{lock.Acquire, j.holders, func(ctx context.Context, _ error) string {
		return j.name + " is busy" + j.holder(ctx)
	}})
}

func (j *job) take(ctx context.Context, what claim) (*interlock.Lease, error) {
	j.say.tell("waiting", "", "waiting for %s", j.name)
	every := pulse
	if j.flags.wait > 0 {
		every = min(every, max(j.flags.wait/4, pulse/10))
	}
	unwatch := j.c.watch(ctx, every)
	silence := j.showProgress(ctx, what.looks)
	lease, err := what.get(waitsUnder(ctx))
	silence()
	unwatch()
	drop(j.doubt) // it was about the lease before
	drop(j.overrun)
	switch {
	case err == nil:
		j.acquired = time.Now()
		tokens := tokens(lease)
		j.say.tell("acquired", strings.Join(tokens, " "), "acquired %s, token %s", j.name, strings.Join(tokens, ", "))
		return lease, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, interlock.ErrBusy), j.flags.wait > 0 && errors.Is(err, interlock.ErrUnavailable):
		busy := what.busy(ctx, err)
		if why := unanswered(err, j.c.whyAway(), j.c.finish()); why != err {
			return nil, why
		}
		if errors.Is(err, interlock.ErrUnavailable) { // it is back, or grants nothing
			return nil, failed(exitUnreachable, err)
		}
		j.say.tell("busy", "", "%s", busy)
		return nil, &exitError{code: j.flags.busy}
	case errors.Is(err, interlock.ErrLost):
		j.lostEarly()
	}
	return nil, err
}

// left is what is left of the time to wait, which began with the command.
func (j *job) left() time.Duration { return max(j.flags.wait-time.Since(j.begun), 0) }

// locks is the lock of the name, or of all names, with such a time to wait if there is one.
func (j *job) locks(wait time.Duration) *interlock.Lock {
	options := j.options
	if j.flags.bounded {
		options = append(slices.Clone(options), interlock.Wait(wait))
	}
	var all []*interlock.Lock
	for _, name := range j.names {
		all = append(all, j.lock(j.c.Client, name, options))
	}
	if len(all) == 1 {
		return all[0]
	}
	return interlock.All(all...).With(options...)
}
