package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
)

// release gives the lock back after the job has ended. It returns an error if the lock was
// lost before, so that the job may not have been alone; not if the backend does not answer.
// Then the lock frees itself within a TTL, and nobody waits for that here.
func (j *job) release(lease *interlock.Lease) (lost error) {
	if err := lease.Err(); err != nil {
		_ = within(lastWord, lease.Release)
		return err
	}
	end := deadline(lease)
	limit := lastWord
	if lease.InDoubt() {
		limit /= 4
	}
	if keep := time.Until(j.acquired.Add(j.atLeast)); keep > 0 {
		// Others are kept out only if the backend hears of it.
		limit = max(limit, min(keep, end.Sub(driver.Now())))
		if lease.InDoubt() {
			j.say.warn("the backend does not answer; trying for %v to keep %s as long as --at-least says", limit.Round(time.Second), j.name)
		}
	}
	err := within(limit, lease.Release)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, interlock.ErrLost):
	case driver.Now() < end:
		return err // the backend has said so
	default:
		err = errors.New("the lease ran out before the backend answered")
	}
	j.c.silent(err)
	j.say.tell("unreleased", "", "%s could not be given back (%s); it frees itself within %v", j.name, reason(err), j.c.TTL())
	return nil
}

// deadline is when the lease ends, on the clock that guards use.
func deadline(l *interlock.Lease) driver.Instant { return driver.Now().Add(l.Remaining()) }

// over tells how a job has ended that had its lock until then, and exits as it did.
func (j *job) over(result guard.Result) error {
	if result.Cause == guard.GuardDied {
		j.say.warn("the guard of %s was killed, and the job with it", j.name)
	}
	j.say.tell("ended", strconv.Itoa(result.ExitCode()), "the job ended with status %d", result.ExitCode())
	if code := result.ExitCode(); code != 0 {
		return &exitError{code: code, job: result}
	}
	return nil
}
