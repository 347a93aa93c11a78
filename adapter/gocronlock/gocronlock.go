// Package gocronlock has jobs of gocron (github.com/go-co-op/gocron/v2) run on one instance of several: on one that
// gets the lock of the job (New), or on the one that leads (NewElector).
//
//	report := gocronlock.New(client, "report", interlock.AtLeast(time.Minute))
//	scheduler, err := gocron.NewScheduler()
//	…
//	_, err = scheduler.NewJob(gocron.CronJob("0 3 * * *", false),
//		gocron.NewTask(report.Bind(work)), // its context ends if the lock is lost
//		report.Option())
package gocronlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/byname"
)

// Job is the lock of one job, which each instance gives to the job of its scheduler.
type Job struct {
	lock   *interlock.Lock
	leases byname.Leases
}

// New returns the lock of a job: the mutex of this name, which all instances use. The job may have another name in
// gocron, by default the name of a Go function, which changes with the program.
//
// The clocks of the instances differ, and gocron starts a job on each by its own. [interlock.AtLeast] keeps the other
// instances out although the job has ended: for longer than clocks differ, and for less than the time between two
// runs.
func New(c *interlock.Client, name string, opts ...interlock.Option) *Job {
	return &Job{lock: c.Mutex(name, opts...)}
}

// Option is for NewJob. gocron skips a run whose lock another has, and so a run of this instance while an earlier
// one, whose lock was lost, goes on. It tells its [gocron.AfterLockError] listener why: the error wraps
// [interlock.ErrBusy], or is another one of [interlock.Lock.TryAcquire]. gocron asks again at the next run only.
//
// A scheduler with an Elector asks for no lock.
func (j *Job) Option() gocron.JobOption { return gocron.WithDistributedJobLocker(locker{j}) }

// Bind returns the function for [gocron.NewTask]: f, with a context that also ends when the lock is lost, and that
// carries the lease ([interlock.LeaseFrom]). The run fails then, as it does without a lock. gocron gives other
// functions no context of the lock.
func (j *Job) Bind(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		lease := j.leases.Find(j.lock.Name())
		if lease == nil {
			return fmt.Errorf("the job has not taken the lock %q: give its Option to NewJob, and no Elector to the scheduler",
				j.lock.Name())
		}
		return work(ctx, lease, f)
	}
}

// work calls f with the context of a lease.
func work(ctx context.Context, lease *interlock.Lease, f func(context.Context) error) error {
	ctx, cancel := lease.Bind(ctx)
	defer cancel()
	err := f(ctx)
	switch lost := lease.Err(); {
	case lost == nil, errors.Is(err, interlock.ErrLost):
		return err
	case err == nil:
		return lost
	default:
		return fmt.Errorf("%w; %w", err, lost)
	}
}

// locker is the Locker of one job. As the Locker of a scheduler it would have all jobs share a lock.
type locker struct{ job *Job }

// Lock tries. If it waited, each instance would run the job, one after the other.
func (l locker) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	if err := l.job.leases.Keep(l.job.lock.TryAcquire(ctx)); err != nil {
		return nil, err
	}
	return l, nil
}

// Unlock releases the lock, although the context has ended if the job was removed. gocron drops its error.
func (l locker) Unlock(context.Context) error { return l.job.leases.Release(l.job.lock.Name()) }
