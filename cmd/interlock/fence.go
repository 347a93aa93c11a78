package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/view"
)

func newFence(o *options) *cobra.Command {
	var name string
	var token uint64
	cmd := &cobra.Command{
		Use:   "fence [flags] FILE -- COMMAND [ARG]…",
		Short: "Run a command, unless a later holder of the lock has run one",
		Long: `Fence runs the command if the token of the job's lock is not smaller than the largest one
that FILE has seen, and has FILE refuse all smaller ones from then on. It belongs before
what changes the resource, so that the late change of a holder that lost its lock is
refused. FILE is on the machine of the resource; fence makes it if it does not exist, and
nothing else writes to it. It serves one lock.

One command of a FILE runs at a time: a later holder waits until the command and all
processes that it has started are gone, also if interlock was killed, which ends them (TERM
at once, KILL half a second later). A command must not call fence for the same FILE: it
would wait for itself.

The token is that of INTERLOCK_TOKEN, which run and elect set, or of --token. It has to be of
a lock that one holds at a time: those of readers and of permits cannot be compared.

Exit status: that of the command; 128+n if signal n ended it or the wait;
  64  wrong usage, no token, or one that cannot be compared
  71  the system has no process or memory for the command
  74  FILE cannot be read, written or locked, or something else has written to it
  79  the token is stale: the command did not run
 126  the command cannot be executed     127  it was not found`,
		Example: `  interlock run nightly -- sh -c './compute >new && interlock fence nightly.fence -- mv new current'
  interlock run disk -- sh -c 'ssh store interlock fence --token "$INTERLOCK_TOKEN" disk.fence -- ./write.sh'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, command, err := new(jobFlags).split(cmd, args, "FILE")
			switch {
			case err != nil:
				return err
			case len(before) > 1:
				return usage("%s takes one FILE, not %d", cmd.CommandPath(), len(before))
			case before[0] == "":
				return usage("FILE is empty")
			}
			grant := fence.Token(token)
			if !cmd.Flags().Changed("token") {
				if grant, err = tokenOfJob(name); err != nil {
					return err
				}
			} else if name != "" {
				return usage("--name is for the token of INTERLOCK_TOKEN, and excludes --token")
			}
			return underFence(cmd, o, before[0], grant, command)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "of several locks of the job, the one that protects what the command changes")
	cmd.Flags().Uint64Var(&token, "token", 0, "of an exclusive grant, instead of INTERLOCK_TOKEN")
	return cmd
}

// tokenOfJob is what the environment says of the job's lock, or of the named one.
func tokenOfJob(name string) (fence.Token, error) {
	names, tokens := strings.Split(os.Getenv(nameVariable), "\n"), strings.Split(os.Getenv(tokenVariable), "\n")
	i := 0
	switch {
	case tokens[0] == "":
		return 0, usage("there is no token: %s is not set; run and elect set it, and --token gives one", tokenVariable)
	case len(names) != len(tokens):
		return 0, usage("%s has %d lines, but %s has %d: they are of different jobs", nameVariable, len(names), tokenVariable, len(tokens))
	case name != "":
		if i = slices.Index(names, name); i < 0 {
			return 0, usage("--name %s: the job runs under %s", name, strings.Join(names, ", "))
		}
	case len(names) > 1:
		return 0, usage("the job has %d locks: --name says which one protects what the command changes", len(names))
	}
	switch os.Getenv(exclusiveVariable) {
	case "yes":
	case "no":
		return 0, usage("the token of %s cannot be compared: others can hold the lock at the same time (-s, --permits)", names[i])
	default:
		return 0, usage("%s does not say yes or no, as run sets it: can the token be compared? --token gives one that can", exclusiveVariable)
	}
	token, err := strconv.ParseUint(tokens[i], 10, 64)
	if err != nil {
		return 0, usage("%s %q is not a token", tokenVariable, tokens[i])
	}
	return fence.Token(token), nil
}

// underFence runs a command if the file accepts the token. The command and all its descendants have the
// locked file open, and so has this process, since some programs close what they inherit.
func underFence(cmd *cobra.Command, o *options, path string, grant fence.Grant, args []string) error {
	if err := startable(args); err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	n := newNotice(cmd.ErrOrStderr())
	silence := progress(ctx, n.telling(false, o.json, nil), again(func(context.Context) (string, error) {
		return fmt.Sprintf("waiting until another command of %s has ended", view.Plain(path)), nil
	}))
	file, err := fence.NewFile(path).Open(ctx, grant)
	silence()
	switch signal := ended(ctx); {
	case err == nil:
	case signal != nil:
		return signal
	case errors.Is(err, fence.ErrStale):
		return failed(exitLost, err)
	case errors.Is(err, fence.ErrNotComparable):
		return failed(exitUsage, err)
	default:
		return failed(exitIO, err)
	}
	defer file.Close() // it was written before
	run, err := guard.Start(guard.Spec{
		Args: args,
		// The lock of the job ends the command, by the guard of run: here is no deadline.
		TTL:      longestHold,
		Deadline: driver.Now().Add(longestHold),
		Liveness: []*os.File{file},
		Ready: func() error {
			stop() // from now on the guard handles signals
			return ended(ctx)
		},
	})
	if err != nil {
		return startFailed(err)
	}
	result := run.Wait()
	run.Close()
	if result.Cause == guard.GuardDied {
		fmt.Fprintln(n, "interlock: the guard of the command was killed, and the command with it")
	}
	if code := result.ExitCode(); code != 0 {
		return &exitError{code: code, job: result}
	}
	return nil
}
