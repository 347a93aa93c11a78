// Package cronlock has jobs of cron (github.com/robfig/cron/v3) run on one instance of several: the one that gets the
// lock. The others skip the run, and say so.
//
//	table := cron.New()
//	report := cron.NewChain(cronlock.New(client, "report", cron.DefaultLogger, interlock.AtLeast(time.Minute)))
//	_, err := table.AddJob("0 3 * * *", report.Then(cronlock.Func(func(ctx context.Context) {
//		_ = work(ctx) // ctx ends if the lock is lost
//	})))
package cronlock

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/interlock-go/interlock"
)

// New returns a wrapper for [cron.NewChain], which runs the job if it gets the mutex of this name at once, as on each
// instance. Jobs of cron have no names: give each a wrapper of its own. Make it the last of the chain if the job is a
// Func.
//
// The log is told "skip" for information if another has the lock (error wraps [interlock.ErrBusy]), and as an error if
// that is not known, such as [interlock.ErrUnavailable]; and "lock lost" as an error, after the job, if it worked
// without the lock at last. Without a log, nil, it is told to [cron.DefaultLogger].
//
// The clocks of the instances differ, and cron starts a job on each by its own. [interlock.AtLeast] keeps the other
// instances out although the job has ended: for longer than clocks differ, and for less than the time between two runs.
func New(c *interlock.Client, name string, log cron.Logger, opts ...interlock.Option) cron.JobWrapper {
	if log == nil {
		log = cron.DefaultLogger
	}
	lock := c.Mutex(name, opts...).With(interlock.Wait(0)) // if it waited, each instance would run the job
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			ran := false
			err := lock.Do(context.Background(), func(ctx context.Context) error {
				ran = true
				if f, ok := job.(Func); ok {
					f(ctx)
				} else {
					job.Run()
				}
				return nil
			})
			switch {
			case err == nil:
			case ran:
				log.Error(err, "lock lost", "lock", name)
			case errors.Is(err, interlock.ErrBusy):
				log.Info("skip", "lock", name, "reason", err)
			default:
				log.Error(err, "skip", "lock", name)
			}
		})
	}
}

// Func is a job with the context of the lock: it ends when the lock is lost, and carries the lease
// ([interlock.LeaseFrom]).
type Func func(ctx context.Context)

// Run makes it a [cron.Job]. Without a wrapper of this package the context has no lock, and does not end.
func (f Func) Run() { f(context.Background()) }
