package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
)

// job is a command to run under a lock.
type job struct {
	o        *options
	flags    *jobFlags
	verb     string // the command's name, for messages
	names    []string
	name     string // of all of them, for messages
	args     []string
	again    bool // after a loss, acquire and run again
	onRevoke syscall.Signal
	options  []interlock.Option
	lock     func(c *interlock.Client, name string, opts []interlock.Option) *interlock.Lock

	atLeast time.Duration
	oncePer time.Duration
	begun   time.Time // the time to wait

	notice   *notice
	say      *teller
	c        *client
	backend  backend
	entries  []string             // of INTERLOCK_HELD
	acquired time.Time            // when this process learned of the grant
	renewed  chan struct{}        // has a value after each renewal
	doubt    chan error           // has the reason when a renewal has failed
	overrun  chan interlock.Event // has one when the job goes on after the loss
}

// job reads NAME… -- COMMAND [ARG]…, with so many names at most.
func (f *jobFlags) job(cmd *cobra.Command, o *options, args []string, most int) (*job, error) {
	names, command, err := f.split(cmd, args, "NAME")
	if err != nil {
		return nil, err
	}
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	switch {
	case len(once) <= most:
	case most == 1:
		return nil, usage("%s takes one NAME, not %d", cmd.CommandPath(), len(once))
	default:
		return nil, usage("%s takes %d names at most, not %d", cmd.CommandPath(), most, len(once))
	}
	return f.under(cmd, o, once, command)
}

// split parts the arguments into those before --, where the wanted ones must be there, and the
// command.
func (f *jobFlags) split(cmd *cobra.Command, args []string, wanted ...string) (before, command []string, err error) {
	dash := cmd.ArgsLenAtDash()
	at := dash
	switch {
	case dash < 0 && f.shell != "":
		at = len(args)
	case dash < 0:
		at = min(len(wanted), len(args))
	}
	before, command = args[:at], args[at:]
	path := strings.Join(append([]string{cmd.CommandPath()}, before...), " ")
	switch {
	case len(before) < len(wanted):
		return nil, nil, usage("%s is missing (see %s --help)", wanted[len(before)], cmd.CommandPath())
	case f.shell != "" && len(command) > 0:
		return nil, nil, usage("-c and a command exclude each other")
	case f.shell != "" && runtime.GOOS == "windows":
		command = []string{"cmd", "/C", f.shell}
	case f.shell != "":
		command = []string{"/bin/sh", "-c", f.shell}
	case len(command) == 0:
		return nil, nil, usage("COMMAND is missing: %s -- COMMAND [ARG]…", path)
	case dash < 0:
		return nil, nil, usage("write -- before the command: %s -- %s", path, command[0])
	}
	return before, command, nil
}

// under makes a job of the command under the names.
func (f *jobFlags) under(cmd *cobra.Command, o *options, names, command []string) (*job, error) {
	if cmd.Flags().Changed("ttl") && f.ttl < shortestTTL {
		return nil, usage("--ttl %v: a job needs at least %v, or a busy machine ends it", f.ttl, shortestTTL)
	}
	j, err := f.of(cmd, o, names)
	if err != nil {
		return nil, err
	}
	j.args = command
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
	j.options = f.options(note)
	if cmd.Flags().Changed("at-most") {
		if err := checkHold("--at-most", f.atMost, time.Millisecond); err != nil {
			return nil, err
		}
		j.options = append(j.options, interlock.AtMost(f.atMost))
	}
	return j, nil
}

// of makes a job of the names, without a command.
func (f *jobFlags) of(cmd *cobra.Command, o *options, names []string) (*job, error) {
	if err := f.waitFlags.check(cmd); err != nil {
		return nil, err
	}
	j := &job{o: o, flags: f, verb: strings.TrimPrefix(cmd.CommandPath(), "interlock "), names: names, name: strings.Join(names, ", "), begun: time.Now()}
	j.notice = newNotice(cmd.ErrOrStderr())
	var err error
	if j.say, err = newTeller(j.notice, f, o.json); err == nil {
		j.say.name = j.name
	}
	return j, err
}

// run acquires the lock and runs the job under it.
func (j *job) run(cmd *cobra.Command) error {
	ctx, stop, err := j.begin(cmd)
	if err != nil {
		return err
	}
	defer func() { stop() }()
	defer j.c.finish()
	for wait := j.left(); ; wait = j.flags.wait { // the opening was a part of the first
		lease, err := j.acquire(ctx, j.locks(wait))
		if err != nil {
			return err
		}
		if ran, err := j.ranAlready(ctx); ran || err != nil {
			_ = within(lastWord, lease.Release)
			return err
		}
		// A signal ends the job, or a wait, and no release: others would wait for the TTL.
		result, err := j.guarded(ctx, lease, stop, func() { ctx, stop = untilSignal(cmd.Context()) })
		if err == nil {
			return j.over(result)
		}
		stop()
		switch signal := ended(ctx); {
		case signal != nil && j.again:
			return signal
		case signal != nil || !errors.Is(err, interlock.ErrLost):
			return err
		}
		ctx, stop = untilSignal(cmd.Context())
		if !j.again && !j.unused(ctx, err) {
			return err
		}
		j.say.warn("%s; waiting for %s again", trim(err), j.name)
	}
}

// guarded runs the job under the lease and releases it when nobody is left. The signals of this
// process are given up by stop when the guard takes over; the job is not begun if one came before. When
// nobody is left, and before the release, gone is called.
func (j *job) guarded(ctx context.Context, lease *interlock.Lease, stop, gone func()) (guard.Result, error) {
	run, err := j.start(ctx, lease, func() error {
		stop()
		return ended(ctx)
	})
	if err != nil {
		lost := lease.Err()
		if signal := ended(ctx); signal != nil {
			_ = within(lastWord, lease.Release)
			return guard.Result{}, signal
		}
		gone()
		if released := within(lastWord, lease.Release); lost == nil && errors.Is(released, interlock.ErrLost) {
			lost = released
		}
		if lost != nil {
			j.lostEarly()
			return guard.Result{}, failed(exitLost, fmt.Errorf("run %s: %w, %w", j.name, lost, errNotStarted))
		}
		return guard.Result{}, startFailed(err)
	}
	defer run.Close() // gone catches the signals before

	_, free := lease.Bind(context.Background()) // the job is work, which the client looks after
	why := j.follow(run, lease)
	result := run.Wait()
	gone()
	free()
	if result.Cause == guard.Lost {
		_ = within(lastWord, lease.Release)
		j.say.tell("lost", "", "lost %s, the job was ended", j.name)
		return result, failed(exitLost, fmt.Errorf("run %s: the job was ended: %w", j.name, why))
	}
	if lease.Err() == nil {
		j.ranWell(result)
	}
	if lost := j.release(lease); lost != nil {
		j.say.tell("lost", "", "lost %s as the job ended", j.name)
		return result, failed(exitLost, fmt.Errorf("%w, as the job ended (its status was %d)", lost, result.ExitCode()))
	}
	return result, nil
}
