package main

import (
	"context"
	"os"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
)

// lastRun is the value in which --once-per keeps when a job began that ended well. Its time is by the clock of the
// machine on which the job ran.
type lastRun struct {
	Began time.Time `json:"began"`
	Host  string    `json:"host"`
}

// last is the value of the lock's last run.
func (j *job) last() *interlock.Value[lastRun] {
	return interlock.NewValue[lastRun](j.c.Client, j.name+"/last-run")
}

// ranAlready reports, under the lock, whether the job has run in this period. It says so.
func (j *job) ranAlready(ctx context.Context) (bool, error) {
	if j.oncePer == 0 {
		return false, nil
	}
	ctx, cancel := answering(ctx, patience)
	defer cancel()
	last, err := j.last().Get(ctx)
	if err != nil {
		return false, err
	}
	ran := last.Exists && time.Since(last.Value.Began).Abs() < j.oncePer // one far ahead is of a clock that was wrong
	if ran {
		j.say.tell("skipped", "", "%s has run already: it began at %s (%s), and runs once per %v",
			j.name, last.Value.Began.Local().Format(time.DateTime), last.Value.Host, j.oncePer)
	}
	return ran, nil
}

// ranWell notes, under the lock, that the job has run. If that cannot be done, it may run again in this period.
func (j *job) ranWell(result guard.Result) {
	if j.oncePer == 0 || result.ExitCode() != 0 {
		return
	}
	ctx, cancel := answering(context.Background(), lastWord)
	defer cancel()
	host, _ := os.Hostname()
	_, err := j.last().Update(ctx, func(lastRun) (lastRun, error) { return lastRun{j.acquired, host}, nil })
	if err != nil {
		j.say.warn("it could not be noted that %s has run (%s): it may run again in this period", j.name, reason(err))
	}
}
