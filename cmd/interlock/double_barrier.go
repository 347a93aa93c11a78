package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newDoubleBarrier(o *options) *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:        "double [flags] NAME MEMBERS -- COMMAND [ARG]…",
		Short:      "Run a command together with those of other members",
		SuggestFor: []string{"double-barrier"},
		Long: `Barrier double waits until MEMBERS processes have called it with this NAME, then runs the
command, as all the others do, and ends when the commands of all have ended. Whoever comes
while a round is full waits for the next. All have to name the same number, 1 to 1000.

The job is guarded as by run: it is gone before the others count this member as having
left, also when interlock is killed. -w is for the wait until all are there: it does not
bound the job, or the wait for the others at the end.

A member that is killed (SIGKILL)
  while it waits for the others  counts until the backend notices, which takes up to a
                                 TTL: a round can begin with it, and its command
                                 does not run;
  while its command runs         counts as having left when its job is gone: the command
                                 is ended, and the others are not told;
  while it waits at the end      has left already.
So a member that needs to know that all commands have done their work has each of them
say so, such as by interlock latch count-down.

A signal ends the wait for the others, also that at the end. While the command runs, it
gets the signal.

The job's environment is that of run. Exit status: that of the command; 128+n if signal n
ended it or a wait; 79 if the member was taken for dead or evicted: the command was ended,
or was not started; 75 if not all members came within the time of -w (-E changes it);
else as for run.`,
		Example: `  interlock barrier double load-test 3 -- ./fire.sh        on each of three machines
  interlock barrier double -w 10m phase/2 8 -- ./phase2.sh  give up if not all come`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, command, err := f.split(cmd, args, "NAME", "MEMBERS")
			if err != nil {
				return err
			}
			if len(before) > 2 {
				return usage("%s takes NAME and MEMBERS: unexpected argument %q", cmd.CommandPath(), before[2])
			}
			members, err := strconv.Atoi(before[1])
			if err != nil {
				return usage("MEMBERS %q is not a number", before[1])
			}
			j, err := f.under(cmd, o, before[:1], command)
			if err != nil {
				return err
			}
			return j.meet(cmd, members)
		},
	}
	f.addWait(cmd)
	f.addJob(cmd)
	return cmd
}

// meet runs the job once so many members are there, and waits until the jobs of all have ended.
func (j *job) meet(cmd *cobra.Command, members int) error {
	ctx, stop, err := j.begin(cmd)
	if err != nil {
		return err
	}
	defer stop()
	defer j.c.finish()
	m := meeting{job: j, barrier: j.c.DoubleBarrier(j.name, members), members: members}
	enter := m.barrier.Enter
	if j.flags.bounded {
		enter = func(ctx context.Context) (*interlock.Lease, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, j.left(), notFull(j.flags.wait))
			defer cancel()
			return m.barrier.Enter(ctx)
		}
	}
	lease, err := j.take(ctx, claim{enter, again(m.there), m.few})
	if err != nil {
		return err
	}
	ending, free := ctx, func() {}
	result, err := j.guarded(ctx, lease, stop, func() { ending, free = untilSignal(cmd.Context()) })
	defer func() { free() }()
	if err != nil {
		return err
	}
	if err := m.leave(ending, lease); err != nil {
		return err
	}
	return j.over(result)
}

// notFull is the cause of a wait that has ended after such a time: not all members came.
type notFull time.Duration

func (n notFull) Error() string { return "not full after " + time.Duration(n).String() }
func (n notFull) Unwrap() error { return interlock.ErrBusy }

// meeting is a job of a double barrier.
type meeting struct {
	*job
	barrier *interlock.DoubleBarrier
	members int
}

// few says how many members were there when the time to wait was over.
func (m *meeting) few(_ context.Context, err error) string {
	return fmt.Sprintf("double barrier %s: %s", m.name, reason(err))
}

// there says how many members are there.
func (m *meeting) there(ctx context.Context) (string, error) {
	waiting, inside, err := m.barrier.Count(ctx)
	switch {
	case waiting == 0:
		return "", err // all have entered
	case inside > 0:
		return fmt.Sprintf("%d of %d members of %s are there; %d of the last round have not left", waiting, m.members, m.name, inside), err
	}
	return fmt.Sprintf("%d of %d members of %s are there", waiting, m.members, m.name), err
}

// inside says how many members have not left.
func (m *meeting) inside(ctx context.Context) (string, error) {
	_, inside, err := m.barrier.Count(ctx)
	if inside == 0 {
		return "", err
	}
	return fmt.Sprintf("%d of %d members of %s have not left", inside, m.members, m.name), err
}

// leave waits until the other members have left; this one has.
func (m *meeting) leave(ctx context.Context, lease *interlock.Lease) error {
	m.say.tell("leaving", "", "the job has ended; waiting until the other members of %s have left", m.name)
	unwatch := m.c.watch(ctx, pulse)
	silence := m.showProgress(ctx, again(m.inside))
	err := until(ctx, func() error { return m.barrier.Leave(ctx, lease) }) // Leave may wait for a backend that is away
	silence()
	unwatch()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, interlock.ErrLost): // its place ran out after the job had ended
		return nil
	case err != nil:
		return failed(exitUnreachable, err)
	}
	return nil
}
