package main

import (
	"context"
	"encoding/json"
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
func (j *job) last() *interlock.Value[[]byte] {
	return interlock.NewValue[[]byte](j.c.Client, j.name+"/last-run")
}

// ranAlready reports, under the lock, whether the job has run in this period. It says so.
func (j *job) ranAlready(ctx context.Context) (bool, error) {
	if j.oncePer == 0 {
		return false, nil
	}
	ctx, cancel := answering(ctx, patience)
	defer cancel()
	stored, err := j.last().Get(ctx)
	if err != nil || !stored.Exists {
		return false, err
	}
	var last lastRun
	if err := json.Unmarshal(stored.Value, &last); err != nil {
		j.say.warn("the value %s/last-run is not one of --once-per: as if %s had not run (%v)", j.name, j.name, err)
		return false, nil
	}
	ran := time.Since(last.Began).Abs() < j.oncePer // one far ahead is of a clock that was wrong
	if ran {
		j.say.tell("skipped", "", "%s has run already: it began at %s (%s), and runs once per %v",
			j.name, last.Began.Local().Format(time.DateTime), last.Host, j.oncePer)
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
	text, _ := json.Marshal(lastRun{j.acquired, host})
	_, err := j.last().Update(ctx, func([]byte) ([]byte, error) { return text, nil })
	if err != nil {
		j.say.warn("it could not be noted that %s has run (%s): it may run again in this period", j.name, reason(err))
	}
}
