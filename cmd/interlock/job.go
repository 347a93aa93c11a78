package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
)

// job is a command to run under a lock.
type job struct {
	o        *options
	flags    *jobFlags
	name     string
	args     []string
	busy     int  // exit code
	again    bool // after a loss, acquire and run again
	onRevoke syscall.Signal
	options  []interlock.Option
	lock     func(*interlock.Client) *interlock.Lock

	say   *teller
	entry string // of INTERLOCK_HELD
}

// job reads NAME -- COMMAND [ARG]…
func (f *jobFlags) job(cmd *cobra.Command, o *options, args []string) (*job, error) {
	dash := cmd.ArgsLenAtDash()
	if len(args) == 0 || dash == 0 {
		return nil, usage("NAME is missing (see %s --help)", cmd.CommandPath())
	}
	j := &job{o: o, flags: f, name: args[0], args: args[1:]}
	switch {
	case f.shell != "" && len(j.args) > 0:
		return nil, usage("-c and a command exclude each other")
	case f.shell != "" && runtime.GOOS == "windows":
		j.args = []string{"cmd", "/C", f.shell}
	case f.shell != "":
		j.args = []string{"/bin/sh", "-c", f.shell}
	case len(j.args) == 0:
		return nil, usage("COMMAND is missing: %s -- COMMAND [ARG]…", cmd.CommandPath()+" "+j.name)
	case dash != 1:
		return nil, usage("write -- before the command: %s %s -- %s", cmd.CommandPath(), j.name, j.args[0])
	}
	if f.revoked != "" {
		s, err := signalNamed(f.revoked)
		if err != nil {
			return nil, usage("--on-revoke: %w", err)
		}
		j.onRevoke = s
	}
	note := f.note
	if note == "" {
		note = filepath.Base(j.args[0])
		if f.shell != "" {
			note = "sh"
		}
	}
	j.options = []interlock.Option{interlock.Note(note)}
	var err error
	if j.say, err = newTeller(cmd.ErrOrStderr(), f, o.json); err != nil {
		return nil, err
	}
	return j, nil
}

// run acquires the lock and runs the job under it.
func (j *job) run(cmd *cobra.Command) error {
	if _, err := guard.LookPath(j.args[0]); err != nil {
		return startFailed(err)
	}
	renewed := make(chan struct{}, 1)
	doubt := make(chan error, 1)
	opts := []interlock.ClientOption{interlock.Observe(func(_ context.Context, e interlock.Event) {
		switch e.Kind {
		case interlock.EventRenewed:
			select {
			case renewed <- struct{}{}:
			default: // the one that is due will see this renewal too
			}
		case interlock.EventInDoubt:
			select {
			case doubt <- e.Err:
			default:
			}
		}
	})}
	if j.flags.ttl != 0 {
		opts = append(opts, interlock.TTL(j.flags.ttl))
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	c, b, err := j.o.open(ctx, opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	j.say.tell("backend", "", "backend %s (%s), TTL %v", b.shown(), b.source, c.TTL())
	j.entry = heldEntry(b, j.name)
	if heldAlready(j.entry) {
		return usage("run %s: the process that started this one holds the lock already; waiting for it would never end", j.name)
	}
	lock := j.lock(c)
	for {
		lease, err := j.acquire(ctx, lock)
		if err != nil {
			return err
		}
		err = j.guarded(c, lease, renewed, doubt, func() error {
			stop() // from now on the guard handles signals
			return ended(ctx)
		})
		if !j.again || !errors.Is(err, interlock.ErrLost) {
			return err
		}
		ctx, stop = untilSignal(cmd.Context())
		defer stop()
	}
}

func (j *job) acquire(ctx context.Context, lock *interlock.Lock) (*interlock.Lease, error) {
	j.say.tell("waiting", "", "waiting for %s", j.name)
	lease, err := lock.Acquire(ctx)
	switch {
	case err == nil:
		j.say.tell("acquired", strconv.FormatUint(lease.Token(), 10), "acquired %s, token %d", j.name, lease.Token())
		return lease, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, interlock.ErrBusy):
		j.say.tell("busy", "", "%s is busy", j.name)
		return nil, &exitError{code: j.busy}
	case errors.Is(err, interlock.ErrInvalid), errors.Is(err, interlock.ErrMismatch):
		return nil, failed(exitUsage, err)
	}
	return nil, failed(exitUnreachable, err)
}

// leftoversAfter is how long after the command its children may end before
// somebody wonders why the lock is kept.
const leftoversAfter = 200 * time.Millisecond

// guarded runs the job under the lease and releases it when nobody is left. The job is not
// begun if ready, which gives up the signals of this process, returns one that came before.
func (j *job) guarded(c *interlock.Client, lease *interlock.Lease, renewed <-chan struct{}, doubt <-chan error, ready func() error) error {
	run, err := guard.Start(guard.Spec{
		Args:     j.args,
		Env:      j.environment(lease),
		TTL:      c.TTL(),
		Deadline: deadline(lease),
		Liveness: lease.Liveness(),
		Judge:    lease.Err,
		Ready:    ready,
	})
	if err != nil {
		if released := lease.Release(); errors.Is(released, interlock.ErrLost) {
			return failed(exitLost, fmt.Errorf("%w before the job was started", released))
		}
		return startFailed(err)
	}
	done, revoked, ended := lease.Done(), lease.Revoked(), run.Ended()
	var stays <-chan time.Time
wait:
	for {
		select {
		case <-run.Done():
			break wait
		case <-ended:
			ended, stays = nil, time.After(leftoversAfter)
		case <-stays:
			j.say.tell("leftovers", "", "the command has ended; %s is kept until what it has started has ended too", j.name)
		case <-renewed:
			if lease.Err() == nil {
				run.Deadline(deadline(lease))
			}
		case err := <-doubt:
			j.say.tell("in-doubt", "", "%s is in doubt: %v", j.name, err)
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
	result := run.Wait()
	lost := lease.Err()
	released := lease.Release()
	switch {
	case result.Cause == guard.Lost:
		if lost == nil {
			lost = fmt.Errorf("%w: it was not renewed in time", interlock.ErrLost)
		}
		j.say.tell("lost", "", "lost %s, the job was ended", j.name)
		return failed(exitLost, fmt.Errorf("run %s: the job was ended: %w", j.name, lost))
	case errors.Is(released, interlock.ErrLost):
		j.say.tell("lost", "", "lost %s as the job ended", j.name)
		return failed(exitLost, fmt.Errorf("%w, as the job ended (its status was %d)", released, result.ExitCode()))
	case released != nil:
		return failed(exitUnreachable, released)
	}
	if result.Cause == guard.GuardDied {
		j.say.warn("the guard of %s was killed, and the job with it", j.name)
	}
	j.say.tell("ended", strconv.Itoa(result.ExitCode()), "the job ended with status %d, %s is released", result.ExitCode(), j.name)
	if code := result.ExitCode(); code != 0 {
		return &exitError{code: code, job: result}
	}
	return nil
}

// deadline is when the lease ends, on the clock that guards use.
func deadline(l *interlock.Lease) driver.Instant { return driver.Now().Add(l.Remaining()) }

func (j *job) environment(l *interlock.Lease) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, heldVariable+"=") {
			env = append(env, v)
		}
	}
	return append(env,
		"INTERLOCK_NAME="+j.name,
		"INTERLOCK_TOKEN="+strconv.FormatUint(l.Token(), 10),
		heldVariable+"="+heldBy(j.entry),
	)
}

// startFailed gives a command that cannot be run the exit code that shells do.
func startFailed(err error) error {
	var s *guard.StartError
	if errors.As(err, &s) {
		return failed(s.Code, fmt.Errorf("cannot run %w", err))
	}
	return err
}
