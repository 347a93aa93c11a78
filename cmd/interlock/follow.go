package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
)

// whyLost says why a guard has ended the job, after so much time without a renewal.
func (j *job) whyLost(lease *interlock.Lease, silence time.Duration, doubt error) error {
	why, ttl := lease.Err(), j.c.TTL()
	switch {
	case errors.Is(why, interlock.ErrEvicted):
		return why
	case j.flags.atMost > 0 && lease.Deadline().Sub(j.acquired) > j.flags.atMost-ttl/10:
		return fmt.Errorf("%w: the time of --at-most %v is over", interlock.ErrLost, j.flags.atMost)
	case why == nil: // the guard was ahead of the loss
		why = fmt.Errorf("%w: it was not renewed in time: %v were left", interlock.ErrLost, lease.Remaining().Round(time.Millisecond))
	}
	if silence > ttl/6 { // else the last renewal has proven little
		why = fmt.Errorf("%w (no renewal for %v of a TTL of %v)", why, silence.Round(time.Millisecond), ttl)
	} else {
		why = fmt.Errorf("%w (the TTL is %v)", why, ttl)
	}
	if doubt != nil {
		why = fmt.Errorf("%w: %w", why, doubt)
	}
	return why
}

// leftoversAfter is how long after the command its children may end before
// somebody wonders why the lock is kept.
const leftoversAfter = 200 * time.Millisecond

// follow stays with the job until nobody of it is left. It tells the guard of renewals,
// the user of what happens, and the job of what others want of it. It returns why the guard
// has ended the job, if it has.
func (j *job) follow(run *guard.Job, lease *interlock.Lease) error {
	// Renewals are passed on even while nobody reads what this process writes.
	began := time.Now()
	var last atomic.Int64 // renewal, as time since began
	over, passed := make(chan struct{}), make(chan struct{})
	steady := make(chan struct{}, 1)
	go func() {
		defer close(passed)
		for {
			select {
			case <-j.renewed:
				if lease.Err() == nil {
					run.Deadline(deadline(lease))
					last.Store(int64(time.Since(began)))
				}
				put(steady, struct{}{})
			case <-over:
				return
			}
		}
	}()
	defer func() { close(over); <-passed }()

	var doubt error
	done, revoked, ended := lease.Done(), lease.Revoked(), run.Ended()
	var stays <-chan time.Time
	for {
		select {
		case <-run.Done():
			return j.whyLost(lease, time.Since(began)-time.Duration(last.Load()), doubt)
		case <-ended:
			ended, stays = nil, time.After(leftoversAfter)
		case <-stays:
			j.say.tell("leftovers", "", "the command has ended; %s is kept until what it has started has ended too", j.name)
		case <-steady:
			if doubt != nil && !lease.InDoubt() {
				doubt = nil
				j.say.tell("back", "", "%s is certain again", j.name)
			}
		case e := <-j.overrun:
			if e.Err != nil {
				seconds := int(e.Took.Seconds())
				j.say.tell("overrun", strconv.Itoa(seconds), "the job goes on, %v after %s was lost", e.Took.Round(100*time.Millisecond), e.Name)
			}
		case doubt = <-j.doubt:
			j.say.tell("in-doubt", "", "%s is in doubt: %v", j.name, doubt)
		case <-revoked:
			revoked = nil
			j.say.tell("revoked", "", "somebody asks for %s", j.name)
			if j.onRevoke != 0 {
				run.Signal(j.onRevoke)
			}
		case <-done:
			done = nil
			if errors.Is(lease.Err(), interlock.ErrEvicted) {
				run.Stop() // there is time until the deadline
			} else {
				run.Kill()
			}
		}
	}
}
