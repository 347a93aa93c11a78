package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
)

// start starts the job, once enough is left of the lease: a grant that came late may have
// used up most of it, and the job would be asked to end at once.
func (j *job) start(ctx context.Context, lease *interlock.Lease, ready func() error) (*guard.Job, error) {
	enough := j.c.TTL() / 3
	left := lease.Remaining()
	if left < enough {
		var err error
		if left, err = j.renewal(ctx, lease, enough); err != nil {
			return nil, err
		}
	}
	return guard.Start(guard.Spec{
		Args:     j.args,
		Env:      j.environment(lease),
		TTL:      j.c.TTL(),
		Deadline: driver.Now().Add(left),
		Liveness: lease.Liveness(),
		GiveBack: j.tickets(lease),
		Judge:    lease.Err,
		Ready:    ready,
		Renewed: func() (driver.Instant, error) {
			// Signals are for the job by now; it gets them when it has begun.
			left, err := j.renewal(context.Background(), lease, enough)
			return driver.Now().Add(left), err
		},
	})
}

// renewal waits until the lease has been renewed and enough is left of it.
func (j *job) renewal(ctx context.Context, lease *interlock.Lease, enough time.Duration) (time.Duration, error) {
	for {
		select {
		case <-j.renewed:
			if left := lease.Remaining(); left >= enough {
				return left, nil
			}
		case <-lease.Done():
			return 0, lease.Err()
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// unused reports whether a lease was lost before the job was started, for no other reason
// than that it had nearly run out when it was granted. Nothing has been done under it.
func (j *job) unused(ctx context.Context, err error) bool {
	return errors.Is(err, errNotStarted) && !errors.Is(err, interlock.ErrEvicted) && j.c.ask(ctx, lastWord) == nil
}

func (j *job) lostEarly() { j.say.tell("lost", "", "lost %s before the job was started", j.name) }

var errNotStarted = errors.New("before the job was started")

// startable looks whether a command can be run, before anything is waited for.
func startable(args []string) error {
	if _, err := guard.LookPath(args[0]); err != nil {
		return startFailed(err)
	}
	outliveReaders()
	return nil
}

// outliveReaders: a reader of standard error that has gone must not end this process, and so what it runs.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// startFailed gives a command that cannot be run the exit code that shells do.
func startFailed(err error) error {
	var s *guard.StartError
	var sig signalled
	switch {
	case errors.As(err, &s):
		return failed(s.Code, fmt.Errorf("cannot run %w", err))
	case errors.As(err, &sig):
		return err
	}
	return failed(exitSystem, err)
}
