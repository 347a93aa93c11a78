package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// mostNames is how many locks a job can have.
const mostNames = 100

func newRun(o *options) *cobra.Command {
	var (
		f       jobFlags
		kind    kindFlags
		atLeast time.Duration
		oncePer time.Duration
	)
	cmd := &cobra.Command{
		Use:   "run [flags] NAME… -- COMMAND [ARG]…",
		Short: "Run a command under a lock",
		Long: `Run waits for the lock NAME, runs the command, and releases the lock when the command
and all processes that it has started are gone. With several names it waits until it has
all of these locks; two that name them in different orders never wait for each other.

The job is gone before another can hold the lock. A guard process, the parent of the
job, ends it and all its descendants when the lock is lost, and also when interlock itself
is killed or stopped: TERM when a sixth of the TTL is left (at most 10 s), KILL when a
twentieth is left (at most 1 s). On Linux the guard of a
killed interlock then gives the lock back, and has a warden, which ends the job if guard
and interlock are both killed. Only if all three are can a part of the job stay behind:
then the token protects, if what the job writes to checks it. --at-most ends the job in the
same way, as if the lock were lost at that time: TERM comes before it.

--once-per 20h skips the command, with exit status 0, if one under this lock has ended with status 0
and began less than 20 hours ago, on whatever machine. The backend keeps that time in the value
NAME/last-run; value delete forgets it.

The job's environment has INTERLOCK_NAME, INTERLOCK_TOKEN (a number that grows with
every exclusive grant; see interlock fence), for several locks a line each,
INTERLOCK_EXCLUSIVE (yes or no), INTERLOCK_HELD (by which a nested run of the same
lock fails at once), and INTERLOCK_TICKETS (by which doctor --deadlocks sees that a
nested run waits under this lock). It has INTERLOCK_URL only with --pass-url, which a
job needs that uses interlock itself.

Exit status: that of the command; 128+n if signal n ended it or the wait;
  64  wrong usage
  69  the backend did not answer, or refused; the command did not run
  70  a fault of interlock itself
  71  the system has no process or memory for the command, which did not run
  75  the lock was busy, or the time to wait ran out (-E changes it)
  79  the lock was lost; the job was ended, or was not started
 126  the command cannot be executed     127  it was not found
--status-fd tells these from a command that exits with the same codes: it gets lines that
begin with waiting, line, away, retry, back, acquired, skipped, in-doubt, revoked, overrun,
leftovers, busy, warning, lost, unreleased or ended.`,
		Example: `  interlock run nightly -- ./backup.sh --full
  interlock run -n nightly -c 'pg_dump app | gzip > app.gz' || echo busy
  interlock run --permits 4 imports -- ./import.sh    at most 4 at once
  interlock run -s config -- ./reload.sh              beside other readers
  interlock run account/3 account/7 -- ./transfer.sh  all of them, or none
  interlock run -n --once-per 20h report -- ./daily.sh  from cron on each machine: once a day`,
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := f.job(cmd, o, args, mostNames)
			if err != nil {
				return err
			}
			if err := kind.check(cmd); err != nil {
				return err
			}
			if f.atMost > 0 && atLeast > f.atMost {
				return usage("--at-least %v is longer than --at-most %v", atLeast, f.atMost)
			}
			if err := checkHold("--at-least", atLeast, 0); err != nil {
				return err
			}
			if cmd.Flags().Changed("once-per") && (oncePer <= 0 || len(j.names) > 1 || kind.semaphore || kind.shared) {
				return usage("--once-per: a time above 0, one NAME, and a lock that one holds at a time are wanted")
			}
			j.atLeast, j.oncePer = atLeast, oncePer
			j.options = append(j.options, interlock.AtLeast(atLeast))
			j.lock = kind.lock
			return j.run(cmd)
		},
	}
	f.add(cmd)
	kind.add(cmd)
	durationVar(cmd.Flags(), &atLeast, "at-least", "", "keep the lock this long, even if the command ends sooner")
	durationVar(cmd.Flags(), &oncePer, "once-per", "", "run nothing if the command has run well in this time, on any machine")
	return cmd
}
